"""Measure how well scores find out-of-distribution pixels."""
import math
from collections.abc import Sequence
from typing import Optional

from mmseg.registry import METRICS

from abnn_mmseg.evaluation.curves import DetectionCurve
from abnn_mmseg.evaluation.fields import (
    IN_DISTRIBUTION,
    OOD,
    VOID_COLUMN,
    anomaly_labels,
    score_map,
)
from abnn_mmseg.evaluation.histograms import (
    MAX_BINS,
    ScoreHistogram,
    check_max_bins,
)
from abnn_mmseg.evaluation.plots import save_detection
from abnn_mmseg.evaluation.running import RunningMetric, Totals
from abnn_mmseg.uncertainty import check_scores
from abnn_mmseg.utils.choices import all_of

# The positive and the negative labels of each protocol.
PROTOCOLS = dict(
    pooled=((OOD, ), (IN_DISTRIBUTION, )),
    per_image=((OOD, ), (IN_DISTRIBUTION, VOID_COLUMN)),
    muad=((OOD, VOID_COLUMN), (IN_DISTRIBUTION, )))
MEASURES = ('AUROC', 'AUPR', 'FPR95')
# A larger possible error of a measure, as a fraction, gives a warning.
TOLERANCE = 1e-4


@METRICS.register_module()
class AnomalyMetric(RunningMetric):
    """AUROC, AUPR (average precision) and FPR at 95 % TPR, in percent.

    Keys are ``ood/<protocol>/<score>/<AUROC|AUPR|FPR95>``. OOD pixels are the
    positives, and a score is higher where a pixel is more likely OOD.

    Protocols, as their authors' code has them:

    - ``pooled`` (SegmentMeIfYouCan, Fishyscapes): one curve over all pixels
      of the set, void left out.
    - ``per_image`` (Hendrycks et al., anomaly-seg): mean over the images that
      have positives and negatives; void counts as in-distribution; FPR at
      the TPR nearest to 95 %.
    - ``muad`` (MUAD evaluation code): as per_image, but void counts as OOD,
      because that code clips unlabelled pixels into the OOD ids. Images with
      one kind of pixels are skipped as in the MUAD paper; the challenge
      server gives them 1 for all three values instead.

    Values are within 1e-4 (as a fraction) of scikit-learn on all pixels,
    unless a warning says that ``max_bins`` is too small for the scores; see
    :mod:`abnn_mmseg.evaluation.curves`. They are NaN, with a warning, if the
    set has no OOD pixel, or only OOD pixels.

    Args:
        scores (Sequence[str]): Uncertainty maps to evaluate.
            Defaults to ('entropy', ).
        protocols (Sequence[str]): Defaults to all three.
        max_bins (int): Bins of a histogram; memory is about 32 bytes a bin
            and score. Defaults to 2**18.
        plot_dir (str, optional): Folder for ROC and PR curves (pooled).
        **kwargs: See :class:`mmengine.evaluator.BaseMetric`.
    """

    default_prefix = 'ood'

    def __init__(self,
                 scores: Sequence = ('entropy', ),
                 protocols: Sequence = tuple(PROTOCOLS),
                 max_bins: int = MAX_BINS,
                 plot_dir: Optional[str] = None,
                 **kwargs) -> None:
        super().__init__(plot_dir=plot_dir, **kwargs)
        self.scores = check_scores(scores)
        if not self.scores:
            raise ValueError("scores=() evaluates nothing; write for example "
                             "scores=('entropy', ).")
        self.protocols = all_of('protocol', protocols, PROTOCOLS)
        self.max_bins = check_max_bins(max_bins)

    def measure(self, sample: dict) -> tuple[dict, Totals]:
        """Values of the per-image protocols, and histograms to pool."""
        maps = {score: score_map(sample, score) for score in self.scores}
        labels = anomaly_labels(sample, maps[self.scores[0]])
        numbers: dict = dict(ood=int((labels == OOD).sum()))
        totals: Totals = {}
        for score, scores in maps.items():
            histogram = ScoreHistogram.from_scores(scores, labels, 3,
                                                   self.max_bins)
            for protocol in self.protocols:
                if protocol != 'pooled':
                    curve = DetectionCurve(histogram, *PROTOCOLS[protocol])
                    numbers[protocol, score] = _values(curve, nearest=True)
            totals[score] = histogram.keep_labels(2)
        return numbers, totals

    def summarize(self, results: list, totals: Totals) -> dict[str, float]:
        """Pooled values from the histograms, means of the per-image ones."""
        if sum(numbers['ood'] for numbers in results) == 0:
            self.warn(f'none of the {len(results)} images has an OOD pixel '
                      '(gt_anomaly == 1): all values are NaN. Is this an '
                      'in-distribution set?')
            return self._named(lambda protocol, score: None)
        curves = {
            score: DetectionCurve(totals[score], *PROTOCOLS['pooled'])
            for score in self.scores
        }
        if self.plot_dir and all(c.defined for c in curves.values()):
            save_detection(curves, self.plot_dir, self.prefix)

        def values(protocol: str, score: str) -> Optional[list[float]]:
            """AUROC, AUPR and FPR95, or None without pixels of both kinds."""
            if protocol == 'pooled':
                found = _values(curves[score])
            else:
                images = [n[protocol, score] for n in results]
                found = _mean([image for image in images if image])
            self._check(protocol, score, found)
            return found

        return self._named(values)

    def _check(self, protocol: str, score: str,
               values: Optional[list[float]]) -> None:
        """Warn if values are NaN or not exact."""
        if values is None:
            where = 'the set has' if protocol == 'pooled' else 'each image has'
            self.warn(f'{where} only one kind of pixels, OOD or '
                      f'in-distribution: {protocol}/{score} is NaN. Does '
                      'gt_anomaly mark the known classes with 0?')
        elif max(errors := values[len(MEASURES):]) > TOLERANCE:
            auroc, aupr, fpr = (f'{100 * error:.2g}' for error in errors)
            self.warn(f'{protocol}/{score}/AUROC may be off by {auroc} '
                      f'points, AUPR by {aupr} and FPR95 by {fpr}: frequent '
                      f'scores share a bin. Raise max_bins={self.max_bins}.')

    def _named(self, values) -> dict[str, float]:
        named = {}
        for protocol in self.protocols:
            for score in self.scores:
                three = values(protocol, score) or [math.nan] * len(MEASURES)
                named.update({
                    f'{protocol}/{score}/{name}': 100 * value
                    for name, value in zip(MEASURES, three)
                })
        return named


def _values(curve: DetectionCurve,
            nearest: bool = False) -> Optional[list[float]]:
    """The ``MEASURES``, and the largest possible error of each."""
    if not curve.defined:
        return None
    if nearest:
        fpr, error = curve.fpr_at_nearest_tpr(), curve.nearest_fpr_error()
    else:
        fpr, error = curve.fpr_at_tpr(), curve.fpr_error()
    return [
        curve.auroc(), curve.average_precision(), fpr, curve.auroc_error(),
        curve.average_precision_error(), error
    ]


def _mean(images: list[list[float]]) -> Optional[list[float]]:
    if not images:
        return None
    return [math.fsum(values) / len(images) for values in zip(*images)]
