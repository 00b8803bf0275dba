"""Measure the error rate without the most uncertain pixels."""
import math
from collections.abc import Sequence
from typing import Optional

import torch
from mmseg.registry import METRICS
from torch import Tensor

from abnn_mmseg.evaluation.curves import DetectionCurve, RiskCoverage
from abnn_mmseg.evaluation.fields import (
    IGNORE,
    class_labels,
    class_logits,
    score_map,
)
from abnn_mmseg.evaluation.histograms import (
    MAX_BINS,
    ScoreHistogram,
    check_max_bins,
    indices_of,
)
from abnn_mmseg.evaluation.plots import save_risk_coverage
from abnn_mmseg.evaluation.running import RunningMetric, Totals
from abnn_mmseg.uncertainty import check_scores


@METRICS.register_module()
class SelectiveMetric(RunningMetric):
    """Risk (error rate of ``pred_sem_seg``) against coverage, in percent.

    ``risk@80`` is the share of wrong pixels among the 80 % of all pixels with
    the lowest score; ``AURC`` the mean of the risk over all coverages;
    ``AUROC`` the probability that a wrong pixel scores higher than a right
    one. Keys are ``sel/pooled/<score>/<AURC|AUROC|risk@coverage>``. All
    pixels of the set that have a class are pooled, so neither void nor OOD.

    Args:
        scores (Sequence[str]): Uncertainty maps to order the pixels by.
            'msp' and 'entropy' are derived from ``seg_logits`` if the
            segmentor does not give them. Defaults to ('msp', ).
        coverages (Sequence[float]): In (0, 1]. Defaults to (0.8, 0.9, 0.95).
        max_bins (int): Bins of a histogram. Defaults to 2**18.
        plot_dir (str, optional): Folder for the risk-coverage curve.
        **kwargs: See :class:`mmengine.evaluator.BaseMetric`.
    """

    default_prefix = 'sel'

    def __init__(self,
                 scores: Sequence = ('msp', ),
                 coverages: Sequence = (0.8, 0.9, 0.95),
                 max_bins: int = MAX_BINS,
                 plot_dir: Optional[str] = None,
                 **kwargs) -> None:
        super().__init__(plot_dir=plot_dir, **kwargs)
        self.scores = check_scores(scores)
        for coverage in coverages:
            if not 0 < coverage <= 1:
                raise ValueError(f'coverages: {coverage} is not in (0, 1]; '
                                 'write 0.8 for 80 %.')
        self.coverages = tuple(coverages)
        self.max_bins = check_max_bins(max_bins)

    def measure(self, sample: dict) -> tuple[dict, Totals]:
        """Histograms of one image's scores, for right and wrong pixels."""
        labels = class_labels(sample)
        known = indices_of(labels != IGNORE)
        pred = sample['pred_sem_seg']['data'].flatten()
        wrong = (pred != labels)[known]
        totals = {
            score: ScoreHistogram.from_scores(
                _score(sample, score)[known],
                wrong,
                max_bins=self.max_bins)
            for score in self.scores
        }
        return dict(pixels=len(known)), totals

    def summarize(self, results: list, totals: Totals) -> dict[str, float]:
        """AURC and the risks, from the pooled histograms."""
        names = ['AURC', 'AUROC'] + [
            f'risk@{100 * c:g}' for c in self.coverages]
        if sum(numbers['pixels'] for numbers in results) == 0:
            self.warn(f'none of the {len(results)} images has a pixel with a '
                      'class (gt_sem_seg != 255): all values are NaN.')
            return {
                f'pooled/{score}/{name}': math.nan
                for score in self.scores for name in names
            }
        curves = {score: RiskCoverage(totals[score]) for score in self.scores}
        if self.plot_dir:
            save_risk_coverage(curves, self.plot_dir, self.prefix)
        metrics = {}
        for score, curve in curves.items():
            mistakes = DetectionCurve(totals[score], (1, ), (0, ))
            values = [curve.aurc(),
                      mistakes.auroc() if mistakes.defined else math.nan,
                      *map(curve.risk, self.coverages)]
            metrics.update({
                f'pooled/{score}/{name}': 100 * value
                for name, value in zip(names, values)
            })
        return metrics


def _score(sample: dict, name: str) -> Tensor:
    if name not in (sample.get('uncertainty') or {}):
        if name == 'msp':
            return 1 - class_logits(sample).softmax(0).amax(0)
        if name == 'entropy':
            return torch.special.entr(class_logits(sample).softmax(0)).sum(0)
    return score_map(sample, name).flatten()
