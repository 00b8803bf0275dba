"""Uncertain areas and predicted segments of an image."""
from collections.abc import Iterator
from typing import NamedTuple, Optional

import cv2
import numpy as np

from abnn_mmseg.evaluation.components import components
from abnn_mmseg.export.result import MapResult

UNCERTAIN, SEGMENT, OBJECT = 'uncertain', 'segment', 'object'
# The scores whose ratio is the share of disagreement.
DISAGREEMENT, TOTAL = 'mutual_information', 'entropy'
Ring = list[list[int]]


class Patch(NamedTuple):
    """A connected area.

    Attributes:
        kind: ``'uncertain'``, ``'segment'`` or ``'object'``.
        rows, columns: The bounding box.
        mask: The pixels of the area in the box, bool.
    """
    kind: str
    rows: slice
    columns: slice
    mask: np.ndarray

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Left, top, width, height."""
        return (self.columns.start, self.rows.start,
                self.columns.stop - self.columns.start,
                self.rows.stop - self.rows.start)

    def inside(self, plane: np.ndarray) -> np.ndarray:
        """The patch's pixels of an array ``[H, W]``."""
        return plane[self.rows, self.columns][self.mask]


class Region(NamedTuple):
    """A connected area and its numbers.

    Attributes:
        patch: The area.
        class_id: The most frequent predicted class.
        area: Number of pixels.
        mean, largest: Mean and maximum of the score.
        excess: Sum over the pixels of how far the score is above the
            threshold. The worst region has the largest.
        disagreement: Share of mutual information, the disagreement of the
            networks, in the entropy; None without these two maps.
    """
    patch: Patch
    class_id: int
    area: int
    mean: float
    largest: float
    excess: float
    disagreement: Optional[float]

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Left, top, width, height."""
        return self.patch.box


def uncertain_patches(values: np.ndarray, threshold: float,
                      min_area: int) -> list[Patch]:
    """Connected areas where a map reaches its threshold."""
    return list(patches_of(UNCERTAIN, values >= threshold, min_area))


def segment_patches(prediction: np.ndarray, min_area: int) -> list[Patch]:
    """Connected areas of one predicted class."""
    return [
        patch for class_id in np.unique(prediction)
        for patch in patches_of(SEGMENT, prediction == class_id, min_area)]


def measure(result: MapResult, score: str, threshold: float,
            patches: list[Patch]) -> list[Region]:
    """Measure patches; return regions, the worst first."""
    regions = [_region(result, score, threshold, patch) for patch in patches]
    return sorted(regions, key=lambda region: (
        -region.excess, -region.mean, region.box))


def outlines(patch: Patch) -> list[Ring]:
    """The rings ``[[x, y], ...]`` of a patch: its border, then its holes.

    They follow the edges of pixels, so the area of the polygon is the number
    of pixels. First and last point are the same.
    """
    # In twice the size, the two sides of an edge are different pixels.
    doubled = patch.mask.astype(np.uint8).repeat(2, 0).repeat(2, 1)
    contours, tree = cv2.findContours(
        doubled, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    offset = patch.columns.start, patch.rows.start
    rings = [_corners((contour[:, 0] + 1) // 2) + offset
             for contour in contours]
    is_hole = tree[0, :, 3] >= 0
    return [rings[i].tolist() for i in np.argsort(is_hole, kind='stable')]


def patches_of(kind: str, mask: np.ndarray,
               min_area: float) -> Iterator[Patch]:
    """Yield the connected areas of a mask that have this many pixels."""
    labels = components(mask, min_area)
    if not labels.any():
        return
    for number, box in enumerate(_boxes(labels).tolist(), 1):
        top, bottom, left, right = box
        region = slice(top, bottom), slice(left, right)
        yield Patch(kind, *region, labels[region] == number)


def _boxes(labels: np.ndarray) -> np.ndarray:
    """First and last row and column of every number, ``[N, 4]``."""
    y, x = np.nonzero(labels)
    numbers = labels[y, x] - 1
    boxes = np.zeros((int(numbers.max()) + 1, 4), np.int64)
    boxes[:, [0, 2]] = max(labels.shape)
    for column, values in ((0, y), (2, x)):
        np.minimum.at(boxes[:, column], numbers, values)
        np.maximum.at(boxes[:, column + 1], numbers, values + 1)
    return boxes


def _region(result: MapResult, score: str, threshold: float,
            patch: Patch) -> Region:
    values = patch.inside(result.map(score)).astype(np.float64)
    share = None
    if {DISAGREEMENT, TOTAL} <= set(result.maps):
        total = patch.inside(result.maps[TOTAL]).sum(dtype=np.float64)
        part = patch.inside(result.maps[DISAGREEMENT]).sum(dtype=np.float64)
        share = float(np.clip(part / total, 0, 1)) if total > 0 else 0.
    ids, counts = np.unique(
        patch.inside(result.prediction), return_counts=True)
    return Region(
        patch, int(ids[counts.argmax()]), len(values), float(values.mean()),
        float(values.max()), float((values - threshold).clip(0).sum()), share)


def _corners(points: np.ndarray) -> np.ndarray:
    """A closed ring of corners, without repeated or collinear points."""
    points = points[np.any(points != np.roll(points, 1, 0), 1)]
    before, after = points - np.roll(points, 1, 0), np.roll(
        points, -1, 0) - points
    turns = before[:, 0] * after[:, 1] != before[:, 1] * after[:, 0]
    points = points[turns]
    return np.concatenate([points, points[:1]])
