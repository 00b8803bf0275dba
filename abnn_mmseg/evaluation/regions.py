"""Measure how many unknown objects scores find."""
import math
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
from mmengine.dist import all_gather_object, get_dist_info
from mmseg.registry import METRICS

from abnn_mmseg.evaluation.components import (
    LEVELS,
    Agreement,
    agreement,
    components,
)
from abnn_mmseg.evaluation.curves import DetectionCurve
from abnn_mmseg.evaluation.fields import (
    IN_DISTRIBUTION,
    OOD,
    VOID_COLUMN,
    anomaly_histogram,
    anomaly_labels,
    score_map,
)
from abnn_mmseg.evaluation.running import RunningMetric, Totals, merge_totals
from abnn_mmseg.uncertainty import check_scores

MEASURES = ('sIoU', 'PPV', 'F1')


@METRICS.register_module()
class RegionMetric(RunningMetric):
    """Component-level metrics of SegmentMeIfYouCan, in percent.

    Keys are ``ood/region/<score>/<sIoU|PPV|F1>``: mean adjusted IoU of the
    true areas, mean precision of the areas found, and F1 averaged over the
    overlaps 0.25, 0.3, ..., 0.75. A true area counts as found if its sIoU
    reaches the overlap; a found area is a false alarm if its precision does
    not. Void pixels are left out. Areas are connected by 8 neighbours; a
    pixel is found where ``score >= threshold``.

    Without thresholds, maps are kept in a temporary folder until the end of
    the set, and the threshold with the best pixel-level F1 is used. This is
    the benchmark's rule, which chooses on the test labels themselves.

    Args:
        scores (Sequence[str]): Uncertainty maps to evaluate.
            Defaults to ('entropy', ).
        thresholds (float | dict, optional): One number, or numbers by score.
            Defaults to those with the best F1.
        min_area (int): Found areas with fewer pixels are dropped. Defaults
            to 500, as in AnomalyTrack; ObstacleTrack has 50.
        min_truth (int): True areas with fewer pixels become void. Defaults
            to 100, as in AnomalyTrack; ObstacleTrack has 10.
        **kwargs: See :class:`mmengine.evaluator.BaseMetric`.
    """

    default_prefix = 'ood'

    def __init__(self,
                 scores: Sequence = ('entropy', ),
                 thresholds: Union[None, float, Mapping[str, float]] = None,
                 min_area: int = 500,
                 min_truth: int = 100,
                 **kwargs) -> None:
        super().__init__(**kwargs)
        self.scores = check_scores(scores)
        if not self.scores:
            raise ValueError("scores=() evaluates nothing; write for example "
                             "scores=('entropy', ).")
        self.thresholds = self._by_score(thresholds)
        self.min_area = min_area
        self.min_truth = min_truth
        self._folder: Optional[str] = None

    def _by_score(self, thresholds) -> Optional[dict[str, float]]:
        if thresholds is None:
            return None
        if not isinstance(thresholds, Mapping):
            return dict.fromkeys(self.scores, float(thresholds))
        missing = [s for s in self.scores if s not in thresholds]
        if missing:
            raise ValueError(f'thresholds={dict(thresholds)} has none of '
                             f'{missing[0]!r}; add it, or write one number '
                             'for all scores.')
        return {score: float(thresholds[score]) for score in self.scores}

    def measure(self, sample: dict) -> tuple[dict, Totals]:
        """Overlaps of one image, or its maps if there are no thresholds."""
        maps = {score: score_map(sample, score) for score in self.scores}
        labels = anomaly_labels(sample, maps[self.scores[0]])
        totals: Totals = {}
        if self.thresholds is None:
            totals = {score: anomaly_histogram(values, labels)
                      for score, values in maps.items()}
        planes = {score: values.float().cpu().numpy()
                  for score, values in maps.items()}
        truth = labels.cpu().numpy()
        if self.thresholds is None:
            return dict(file=self._keep(planes, truth)), totals
        return self._overlaps(planes, truth, self.thresholds), totals

    def evaluate(self, size: int) -> dict:
        """Compute the metrics; choose thresholds first if there are none."""
        try:
            if self.thresholds is None:
                chosen = self._choose(size)
                self.results = [
                    self._overlaps(*_load(numbers['file']), chosen)
                    for numbers in self.results]
            return super().evaluate(size)
        finally:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def summarize(self, results: list, totals: Totals) -> dict[str, float]:
        """Means over all areas of the set."""
        metrics: dict[str, float] = {}
        for score in self.scores:
            found = Agreement(*(
                np.array([value for numbers in results
                          for value in numbers[score][i]])
                for i in range(len(Agreement._fields))))
            if not len(found.truth):
                self.warn(f'none of the {len(results)} images has an OOD area '
                          f'of {self.min_truth} pixels or more: sIoU is NaN.')
            values = (_mean(found.truth), _mean(found.precision), _f1(found))
            metrics.update({f'region/{score}/{name}': 100 * value
                            for name, value in zip(MEASURES, values)})
        return metrics

    def _overlaps(self, maps: Mapping[str, np.ndarray], labels: np.ndarray,
                  thresholds: Mapping[str, float]) -> dict:
        """Fields of ``Agreement`` as lists, by score."""
        areas = components(labels == OOD)
        small = np.bincount(areas.ravel()) < self.min_truth
        small[0] = False
        counts = (labels != VOID_COLUMN) & ~small[areas]
        return {
            score: [values.tolist() for values in agreement(
                areas[counts], components(
                    (values >= thresholds[score]) & (labels != VOID_COLUMN),
                    self.min_area)[counts])]
            for score, values in maps.items()}

    def _keep(self, maps: dict[str, np.ndarray], labels: np.ndarray) -> str:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix='abnn-regions-')
        path = os.path.join(self._folder, f'{len(self.results)}.npz')
        arrays: dict[str, Any] = {
            f'map {score}': values for score, values in maps.items()}
        np.savez(path, labels=labels, **arrays)
        return path

    def _choose(self, size: int) -> dict[str, float]:
        """Thresholds with the best F1 over the pixels of all processes."""
        rank, world_size = get_dist_info()
        own = self._total
        if (len(self.results) - 1) * world_size + rank < size:
            own = merge_totals(own, self._last)
        parts = all_gather_object(
            {score: total.cpu() for score, total in own.items()})
        pooled = reduce(merge_totals, parts)
        return {score: DetectionCurve(
            histogram, (OOD, ), (IN_DISTRIBUTION, )).best_threshold()
            for score, histogram in pooled.items()}


def _load(path: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    if not Path(path).exists():
        raise FileNotFoundError(
            f'{path}, the maps of an image, is gone before the end of the '
            'test; give RegionMetric thresholds, or room in TMPDIR.')
    with np.load(path) as arrays:
        maps = {name[len('map '):]: arrays[name]
                for name in arrays.files if name != 'labels'}
        return maps, arrays['labels']


def _mean(values: np.ndarray) -> float:
    return math.fsum(values) / len(values) if len(values) else math.nan


def _f1(found: Agreement) -> float:
    """Mean F1 over ``LEVELS``; NaN without true and found areas."""
    if not len(found.truth) and not len(found.precision):
        return math.nan
    hits = (found.truth[:, None] >= LEVELS).sum(0)
    missed = len(found.truth) - hits
    alarms = (found.precision[:, None] < LEVELS).sum(0)
    return float((2 * hits / (2 * hits + missed + alarms)).mean())
