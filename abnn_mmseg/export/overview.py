"""One picture of a few results: a row per image, a column per map."""
from collections.abc import Sequence
from pathlib import Path
from typing import Union

import cv2
import numpy as np

from abnn_mmseg.export.result import MapResult
from abnn_mmseg.uncertainty import score_of
from abnn_mmseg.utils.colours import colourise, palette_table
from abnn_mmseg.utils.files import atomic_path

TITLE_HEIGHT = 26
ANOMALY = (255, 255, 255)


def write_overview(path: Union[str, Path], results: Sequence[MapResult],
                   palette: Sequence, columns: Sequence[str],
                   zoom: int = 1) -> None:
    """Write image, ground truth (anomalies white), prediction and maps.

    All maps of one score, also those of two models (``'base: entropy'``),
    share a scale from 0, or from the smallest value if that is negative, to
    the largest value.

    Args:
        path (str): PNG to write.
        results (Sequence[MapResult]): One for each row.
        palette (Sequence): RGB of the classes.
        columns (Sequence[str]): Names of the maps.
        zoom (int): Factor of enlargement.
    """
    table = palette_table(palette)
    ends: dict[str, tuple[float, float]] = {}
    for name in columns:
        score = score_of(name)
        low, high = ends.get(score, (0., 1e-6))
        for result in results:
            bottom, top = np.percentile(result.maps[name], (0.5, 99.5))
            low, high = min(low, float(bottom)), max(high, float(top))
        ends[score] = low, high
    rows = []
    for result in results:
        panels = [result.image, _ground_truth(result, table),
                 table[result.prediction]]
        for name in columns:
            panels.append(colourise(
                result.maps[name], ends[score_of(name)]))
        rows.append(np.hstack([np.pad(v, ((1, 1), (1, 1), (0, 0)),
                                      constant_values=255) for v in panels]))
    picture = cv2.resize(np.vstack(rows), None, fx=zoom, fy=zoom,
                         interpolation=cv2.INTER_CUBIC)
    titles = ['image', 'ground truth', 'prediction', *columns]
    picture = np.vstack([_titles(titles, picture.shape[1]), picture])
    with atomic_path(path) as temporary:
        cv2.imwrite(str(temporary), np.ascontiguousarray(picture[..., ::-1]))


def _ground_truth(result: MapResult, table: np.ndarray) -> np.ndarray:
    if result.ground_truth is None:
        return np.zeros_like(result.image)
    truth = table[result.ground_truth.astype(np.uint8)]
    if result.anomaly is not None:
        truth[result.anomaly == 1] = ANOMALY
    return truth


def _titles(titles: Sequence[str], width: int) -> np.ndarray:
    strip = np.full((TITLE_HEIGHT, width, 3), 255, np.uint8)
    step = width / len(titles)
    for i, title in enumerate(titles):
        cv2.putText(strip, title, (round(i * step) + 6, TITLE_HEIGHT - 8),
                    cv2.FONT_HERSHEY_SIMPLEX, 0.5, (30, 30, 30), 1,
                    cv2.LINE_AA)
    return strip
