"""95 % intervals of differences, by paired bootstrap over images.

A resample draws as many images as the set has, with replacement, and the same
images for all methods, so images that are hard for every method cancel out.
Each metric is computed for each resample from sums over its images
(:mod:`abnn_mmseg.evaluation.image_statistics`). The interval of a difference
holds the middle 95 % of its values. It measures the effect of the choice of
images. The effect of other members and draws is the spread over seeds.
"""
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import numpy as np
import torch

from abnn_mmseg.comparison.report import with_groups
from abnn_mmseg.evaluation import DetectionCurve, ScoreHistogram
from abnn_mmseg.evaluation.anomaly import MEASURES
from abnn_mmseg.evaluation.image_statistics import Arrays

RESAMPLES = 1000
LEVEL = 0.95
# For each metric its values in all resamples.
Samples = dict[str, np.ndarray]


def resamples(images: int, count: int = RESAMPLES) -> np.ndarray:
    """How often each resample takes each image, ``[count + 1, images]``.

    The first row is the set itself, with every image once.
    """
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(images, np.full(images, 1 / images), count)
    return np.concatenate([np.ones_like(drawn[:1]), drawn])


def measure(arrays: Arrays, weights: np.ndarray) -> Samples:
    """The pooled metrics of every resample, in percent (NLL in nats).

    Args:
        arrays (dict): Statistics of images, see
            :class:`~abnn_mmseg.evaluation.image_statistics.ImageStatisticsMetric`.
        weights (np.ndarray): See :func:`resamples`.
    """
    def total(name: str) -> np.ndarray:
        """Sum an array over the images of each resample."""
        return np.tensordot(weights, arrays[name], 1)

    found = {}
    if 'nll' in arrays:
        found = _classes(*map(total, (
            'intersect', 'union', 'calibration', 'nll')))
    for name in arrays:
        if f'{name} low' in arrays:
            found.update(_detection(name, arrays, total(name)))
    return found


def _classes(intersect: np.ndarray, union: np.ndarray,
             calibration: np.ndarray, nll: np.ndarray) -> Samples:
    pixels, confidence, right = np.moveaxis(calibration, 1, 0)
    gaps = np.abs(right - confidence).sum(1)
    with np.errstate(invalid='ignore', divide='ignore'):
        return {
            'seg/mIoU': 100 * _mean_of_known(intersect / union),
            'cal/pooled/ECE': 100 * gaps / pixels.sum(1),
            'cal/pooled/NLL': nll[:, 0] / nll[:, 1]
        }


def _mean_of_known(iou: np.ndarray) -> np.ndarray:
    """Mean over the classes that occur; NaN if none does."""
    there = ~np.isnan(iou)
    return np.where(there, iou, 0).sum(1) / there.sum(1)


def _detection(score: str, arrays: Arrays, counts: np.ndarray) -> Samples:
    low, high = (torch.from_numpy(arrays[f'{score} {end}'])
                 for end in ('low', 'high'))
    values = np.full((len(counts), 3), np.nan)
    for row, one in zip(values, counts):
        curve = DetectionCurve(
            ScoreHistogram(low, high, torch.from_numpy(one)), (1, ), (0, ))
        if curve.defined:
            row[:] = (curve.auroc(), curve.average_precision(),
                      curve.fpr_at_tpr())
    return {f'ood/pooled/{score}/{name}': 100 * column
            for name, column in zip(MEASURES, values.T)}


def interval_of(own: np.ndarray, other: np.ndarray,
                difference: float) -> Optional[list[float]]:
    """The interval ``[low, high]`` of a difference; None without numbers.

    Args:
        own (np.ndarray): Values in all resamples; the first is the set.
        other (np.ndarray): The values of the reference.
        difference (float): The exact difference on the set. The values come
            from coarser bins, so the interval is moved by their error.
    """
    values = own - other
    values = values[~np.isnan(values)]
    if len(values) < 2 or np.isnan(own[0] - other[0]):
        return None
    tail = (1 - LEVEL) / 2
    ends = np.quantile(values[1:], [tail, 1 - tail])
    return [float(end) for end in ends - values[0] + difference]


class Intervals:
    """Differences of rows to a reference, each with its interval.

    Args:
        folder (Path): Folder of the rows, with the statistics of images.
        reference (str): Name of the method or group that all others are
            compared with.
    """

    def __init__(self, folder: Path, reference: str) -> None:
        self.folder = folder
        self.reference = reference
        self.known: dict[str, Optional[Samples]] = {}

    def of(self, rows: Sequence[dict]) -> list[dict]:
        """Rows and groups, each compared with the reference.

        A row gets ``reference`` and ``difference``. For each metric that both
        rows have, the difference holds ``value`` and, if statistics of the
        images are stored, ``low`` and ``high``.
        """
        found = with_groups(rows)
        for dataset in dict.fromkeys(row['dataset'] for row in rows):
            self._compare([r for r in found if r['dataset'] == dataset])
        return found

    def _compare(self, rows: Sequence[dict]) -> None:
        reference = next(
            (row for row in rows
             if self.reference in (row['method'], row.get('of_group'))), None)
        if reference is None:
            return
        against = self._samples(reference)
        for row in rows:
            if row is not reference:
                row['reference'] = self.reference
                row['difference'] = _differences(
                    row, reference, self._samples(row), against)

    def _samples(self, row: dict) -> Optional[Samples]:
        """Values in all resamples; for a group the means over its rows."""
        parts = [self._of_key(key, row['images'])
                 for key in row.get('keys', [row.get('key')])]
        known = [part for part in parts if part is not None]
        if not known or len(known) < len(parts):
            return None
        return {
            name: np.mean([part[name] for part in known], 0)
            for name in known[0] if all(name in part for part in known)
        }

    def _of_key(self, key: str, images: int) -> Optional[Samples]:
        if key not in self.known:
            path = statistics_file(self.folder, key)
            self.known[key] = None
            # There is no interval for a single image.
            if path.is_file() and images > 1:
                with np.load(path) as arrays:
                    self.known[key] = measure(dict(arrays),
                                              resamples(images))
        return self.known[key]


def _differences(row: dict, reference: dict, own: Optional[Samples],
                 other: Optional[Samples]) -> dict[str, dict]:
    found = {}
    for name, value in row['metrics'].items():
        against = reference['metrics'].get(name)
        if value is None or against is None:
            continue
        entry = found[name] = dict(value=value - against)
        if own is None or other is None or name not in own:
            continue
        if name in other:
            ends = interval_of(own[name], other[name], entry['value'])
            if ends is not None:
                entry.update(low=ends[0], high=ends[1])
    return found


def statistics_file(folder: Path, key: str) -> Path:
    """The file with the statistics of a row's images."""
    return folder / f'{key}.images.npz'
