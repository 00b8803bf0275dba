"""Statistics of single images, from which metrics can be resampled."""
from collections.abc import Sequence
from functools import reduce
from typing import Any, Optional

import numpy as np
import torch
from mmengine.evaluator import BaseMetric
from mmseg.evaluation import IoUMetric
from mmseg.registry import METRICS

from abnn_mmseg.evaluation.anomaly import AnomalyMetric
from abnn_mmseg.evaluation.calibration import UNIT, CalibrationMetric
from abnn_mmseg.evaluation.fields import IGNORE, class_labels
from abnn_mmseg.evaluation.histograms import ScoreHistogram

# Bins of the scores of a set. AUROC from so few is within 0.05 points.
BINS = 1024
Arrays = dict[str, np.ndarray]


@METRICS.register_module()
class ImageStatisticsMetric(BaseMetric):
    """Keeps the statistics of each image that pooled metrics depend on.

    It has no metrics of its own. After ``evaluate``, :attr:`arrays` holds the
    statistics, with images along the first axis.

    - ``intersect``, ``union``: pixels of each class, ``[N, C]``;
    - ``calibration``: pixels, sum of confidences and right pixels in each of
      15 bins, ``[N, 3, 15]``;
    - ``nll``: sum of the negative log-likelihood and pixels, ``[N, 2]``;
    - ``<score>``: in-distribution and OOD pixels in each bin of a score,
      ``[N, bins, 2]``, and ``<score> low``, ``<score> high``: the keys of
      the bins, see :mod:`abnn_mmseg.evaluation.histograms`.

    Args:
        scores (Sequence[str]): Uncertainty maps to keep histograms of.
            Defaults to none.
        bins (int): Bins of a histogram. Defaults to 1024.
        **kwargs: See :class:`mmengine.evaluator.BaseMetric`.
    """

    default_prefix = 'images'

    def __init__(self, scores: Sequence[str] = (), bins: int = BINS,
                 **kwargs) -> None:
        super().__init__(**kwargs)
        self.scores = tuple(scores)
        self.calibration = CalibrationMetric(protocols=('pooled', ))
        self.anomaly = AnomalyMetric(
            self.scores or ('entropy', ), ('pooled', ), max_bins=bins)
        self.arrays: Arrays = {}

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Keep the statistics of each image of a batch."""
        for sample in data_samples:
            histograms = {}
            if self.scores:
                _, found = self.anomaly.measure(sample)
                histograms = {name: histogram.cpu()
                              for name, histogram in found.items()}
            self.results.append((self._of_classes(sample), histograms))

    def _of_classes(self, sample: dict) -> dict[str, torch.Tensor]:
        """The statistics that need class labels; empty without labels."""
        if 'gt_sem_seg' not in sample:
            return {}
        labels = class_labels(sample)
        predicted = sample['pred_sem_seg']['data'].flatten()
        classes = max(2, len(sample['seg_logits']['data']))
        intersect, union, *_ = IoUMetric.intersect_and_union(
            predicted, labels.to(predicted), classes, IGNORE)
        numbers, totals = self.calibration.measure(sample)
        return dict(
            intersect=intersect.cpu().double(),
            union=union.cpu().double(),
            calibration=totals['top'].cpu().double() * UNIT,
            nll=torch.tensor([numbers['nll'], numbers['pixels']],
                             dtype=torch.float64))

    def compute_metrics(self, results: list) -> dict[str, float]:
        """Fill :attr:`arrays`; runs on the main process only."""
        statistics, histograms = zip(*results)
        self.arrays = {
            name: torch.stack([one[name] for one in statistics]).numpy()
            for name in statistics[0]
        }
        for score in self.scores:
            self.arrays.update(
                _stacked(score, [one[score] for one in histograms]))
        return {}

    def state_dict(self) -> dict:
        """The statistics so far, as tensors and builtins."""
        return dict(results=[
            (statistics, {k: vars(h) for k, h in histograms.items()})
            for statistics, histograms in self.results])

    def load_state_dict(self, state: dict) -> None:
        """Continue from stored statistics."""
        self.results = [
            (statistics,
             {k: ScoreHistogram(**h) for k, h in histograms.items()})
            for statistics, histograms in state['results']]


def image_statistics(metrics: Sequence[BaseMetric]) -> Optional[Arrays]:
    """The arrays of the first such metric; None without one."""
    for metric in metrics:
        if isinstance(metric, ImageStatisticsMetric):
            return metric.arrays
    return None


def _stacked(score: str, histograms: list[ScoreHistogram]) -> Arrays:
    """The histograms of all images over the same bins."""
    total = reduce(ScoreHistogram.merge, histograms)
    bins = (total.low >> total.level).numpy()
    counts = np.zeros((len(histograms), len(bins), 2), np.int32)
    for row, histogram in zip(counts, histograms):
        # Each bin of an image lies in one bin of the set.
        own = np.searchsorted(bins, (histogram.low >> total.level).numpy())
        np.add.at(row, own, histogram.counts.numpy())
    return {score: counts, f'{score} low': total.low.numpy(),
            f'{score} high': total.high.numpy()}
