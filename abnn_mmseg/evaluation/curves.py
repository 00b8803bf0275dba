"""Curves of score histograms: detection (ROC, PR) and risk-coverage.

A bin with one score is a tie, as in scikit-learn: it is above or below a
threshold as a whole. In a bin with several scores the labels are assumed to be
evenly mixed, so a threshold may divide it. The exception is a bin with far
more pixels than its neighbours: one frequent score fills it, so it is a tie.
If two frequent scores share a bin, the curve is not exact;
the methods of :class:`DetectionCurve` that end in ``_error`` bound the errors.
"""
from typing import Optional

import numpy as np
import torch

from abnn_mmseg.evaluation.histograms import ScoreHistogram, scores_of


class DetectionCurve:
    """Detection of positive pixels by a score that should be high.

    Args:
        histogram (ScoreHistogram): The scores by label.
        positive (tuple[int]): The labels to find.
        negative (tuple[int]): The labels not to find.
    """

    def __init__(self, histogram: ScoreHistogram, positive: tuple,
                 negative: tuple) -> None:
        histogram = histogram.cpu()
        counts = histogram.counts.flip(0).numpy()
        self.positives = counts[:, list(positive)].sum(1)
        self.negatives = counts[:, list(negative)].sum(1)
        self.several = (histogram.low != histogram.high).flip(0).numpy()
        self.mixed = self.several & ~_stands_out(
            self.positives + self.negatives)
        self.keys = histogram.low.flip(0)
        self.tp = self.positives.cumsum()
        self.fp = self.negatives.cumsum()

    @property
    def num_positives(self) -> int:
        """Number of positive pixels."""
        return int(self.tp[-1]) if len(self.tp) else 0

    @property
    def num_negatives(self) -> int:
        """Number of negative pixels."""
        return int(self.fp[-1]) if len(self.fp) else 0

    @property
    def defined(self) -> bool:
        """Whether there are pixels of both kinds."""
        return self.num_positives > 0 and self.num_negatives > 0

    def auroc(self) -> float:
        """Probability that a positive scores higher; ties count one half."""
        below = self.tp - self.positives / 2
        return float(
            (self.negatives / self.num_negatives) @ (below / self.tp[-1]))

    def auroc_error(self) -> float:
        """Largest possible error of :meth:`auroc`.

        Whether a positive or a negative pixel in the same bin of several
        scores is higher is unknown; :meth:`auroc` counts one half.
        """
        unknown = (self.negatives / self.num_negatives) * (
            self.positives / self.num_positives)
        return float(unknown[self.several].sum() / 2)

    def fpr_error(self, tpr: float = 0.95) -> float:
        """Largest possible error of a false positive rate at ``tpr``.

        The threshold may lie anywhere in a bin of several scores.
        """
        i = self._first(tpr)
        return float(
            self.several[i] * self.negatives[i] / self.num_negatives)

    def average_precision(self) -> float:
        """``sum_n (R_n - R_{n-1}) P_n``, as scikit-learn defines it."""
        return float(self._precisions().sum() / self.num_positives)

    def average_precision_error(self) -> float:
        """Largest possible error of :meth:`average_precision`.

        A bin of several scores with p positives and n negatives follows t
        positives and f negatives. At best, its positives share one score
        above all its negatives; their precisions then add up to
        ``p (t + p) / (t + p + f)``. At worst, the negatives come first:
        ``sum_j (t + j) / (t + j + f + n)``, which is at least
        ``p - (f + n) log((c + p + 1/2) / (c + 1/2))`` with c = t + f + n.
        """
        precisions = self._precisions()[self.several]
        p = self.positives[self.several]
        tp, fp = self.tp[self.several], self.fp[self.several]
        others = tp + fp - p
        worst = p - fp * np.log1p(p / (others + 0.5))
        seen = np.maximum(tp + fp - self.negatives[self.several], 1)
        best = p * (tp / seen)
        error = max((best - precisions).sum(), (precisions - worst).sum())
        return float(error / self.num_positives)

    def _precisions(self) -> np.ndarray:
        """The sum of the precisions at the positives of each bin."""
        # In a mixed bin: the precision at its middle positive.
        skipped = self.mixed * (self.positives - 1) / 2
        tp = self.tp - np.maximum(skipped, 0)
        fp = self.fp - self.mixed * self.negatives / 2
        # Without positives, both may be 0.
        return self.positives * (tp / np.maximum(tp + fp, 1))

    def fpr_at_tpr(self, tpr: float = 0.95) -> float:
        """False positive rate at the first threshold reaching ``tpr``."""
        i = self._first(tpr)
        need = self.tp[i]
        if self.mixed[i]:
            need = min(need, np.ceil(tpr * self.num_positives))
        return self._false_positives(i, need) / self.num_negatives

    def fpr_at_nearest_tpr(self, tpr: float = 0.95) -> float:
        """False positive rate where the TPR comes nearest to ``tpr``.

        The rule of Hendrycks' anomaly-seg code and MUAD's: of two equally
        near TPRs the higher, of all thresholds with that TPR the lowest
        (the highest if all positives are found).
        """
        i, need = self._first(tpr), tpr * self.num_positives
        low, high = self.tp[i] - self.positives[i], self.tp[i]
        if self.mixed[i]:
            low, high = max(low, np.floor(need)), min(high, np.ceil(need))
        nearest = high if self._nearer(tpr, low, high) else low
        if nearest in self.tp:
            if nearest == self.num_positives:
                i = np.searchsorted(self.tp, nearest, 'left')
            else:
                i = np.searchsorted(self.tp, nearest, 'right') - 1
        return self._false_positives(i, nearest) / self.num_negatives

    def nearest_fpr_error(self, tpr: float = 0.95) -> float:
        """Largest possible error of :meth:`fpr_at_nearest_tpr`.

        The nearest TPR may lie anywhere in a bin of several scores. If it is
        that at the end of the bin, negatives up to the next positive count,
        and that positive's bin may begin with some of them.
        """
        i = self._first(tpr)
        low, high = self.tp[i] - self.positives[i], self.tp[i]
        found = self.fpr_at_nearest_tpr(tpr) * self.num_negatives
        least, most = self.fp[i] - self.negatives[i], self.fp[i]
        if self._nearer(tpr, low, high):
            if high < self.num_positives:
                after = np.searchsorted(self.tp, high, 'right')
                most = self.fp[after - 1]
                most += self.several[after] * self.negatives[after]
        elif not self.several[i]:
            most = found
        if not self.several[i]:
            least = found
        return float(max(most - found, found - least) / self.num_negatives)

    def threshold(self,
                  tpr: Optional[float] = None,
                  fpr: Optional[float] = None) -> float:
        """The threshold with a given rate, for ``score >= threshold``.

        Args:
            tpr (float, optional): Choose the highest threshold with at least
                this true positive rate.
            fpr (float, optional): Choose the lowest threshold with at most
                this false positive rate. Give either ``tpr`` or ``fpr``.
        """
        if tpr is not None:
            assert fpr is None
            return float(scores_of(self.keys[self._first(tpr)]))
        assert fpr is not None
        allowed = np.searchsorted(self.fp, fpr * self.num_negatives, 'right')
        if allowed == 0:
            above = np.float32(scores_of(self.keys[0]))
            return float(np.nextafter(above, np.float32(np.inf)))
        return float(scores_of(self.keys[allowed - 1]))

    def best_threshold(self) -> float:
        """The threshold with the best F1; NaN without pixels."""
        if not len(self.tp):
            return float('nan')
        f1 = 2 * self.tp / (self.tp + self.fp + max(self.num_positives, 1))
        return float(scores_of(self.keys[int(f1.argmax())]))

    def rates(self, threshold: float) -> tuple[float, float]:
        """False and true positive rate of ``score >= threshold``.

        A rate is NaN if there are no such pixels. Rates are exact at
        thresholds of :meth:`threshold`.
        """
        i = np.searchsorted(-scores_of(self.keys), -threshold, 'right')
        fpr, tpr = (
            (int(found[i - 1]) if i else 0) / total if total else np.nan
            for found, total in ((self.fp, self.num_negatives),
                                 (self.tp, self.num_positives)))
        return fpr, tpr

    def points(self, most: int = 1000) -> dict[str, np.ndarray]:
        """The curves, thinned to at most ``most`` points."""
        i = _thinned(self.tp / self.num_positives + self.fp /
                    self.num_negatives, most)
        return dict(
            threshold=scores_of(self.keys[torch.from_numpy(i)]),
            tpr=self.tp[i] / self.num_positives,
            fpr=self.fp[i] / self.num_negatives,
            precision=self.tp[i] / (self.tp + self.fp)[i])

    def _nearer(self, tpr: float, low: float, high: float) -> bool:
        """Whether the higher of two TPRs is at least as near.

        Shares are compared, not counts, because rounding decides if both are
        equally near, and the authors' code compares shares.
        """
        total = self.num_positives
        return bool(high / total - tpr <= tpr - low / total)

    def _first(self, tpr: float) -> int:
        return int(np.searchsorted(self.tp / self.num_positives, tpr))

    def _false_positives(self, i: int, need: float) -> float:
        missing = self.tp[i] - need
        if missing == 0:
            return float(self.fp[i])
        return float(self.fp[i] -
                     self.negatives[i] * missing / self.positives[i])


class RiskCoverage:
    """Share of errors among the pixels with the lowest scores.

    ``risk(c)`` is the error rate of the share ``c`` of all pixels with the
    lowest scores. Pixels with equal scores come in random order, so the risk
    is the expected one.

    Args:
        histogram (ScoreHistogram): Scores, higher meaning less sure, with
            labels 0 (right) and 1 (wrong).
    """

    def __init__(self, histogram: ScoreHistogram) -> None:
        counts = histogram.cpu().counts.numpy()
        self.errors = np.r_[0, counts[:, 1].cumsum()]
        self.covered = np.r_[0, counts.sum(1).cumsum()]

    @property
    def num_pixels(self) -> int:
        """Number of all pixels."""
        return int(self.covered[-1])

    def aurc(self) -> float:
        """Mean of the risk over all coverages 1/N, 2/N, ..., 1.

        In a bin after n pixels with E errors, c pixels with e errors add
        ``sum_j (E + e j/c) / (n + j) = e + (E - e n/c) (H_{n+c} - H_n)``.
        """
        c, e = np.diff(self.covered), np.diff(self.errors)
        n, before = self.covered[:-1], self.errors[:-1]
        harmonic = torch.digamma(torch.from_numpy(self.covered + 1.)).diff()
        # e * n could overflow 64 bits.
        total = e + (before - e * (n / c)) * harmonic.numpy()
        return float(total.sum() / self.num_pixels)

    def risk(self, coverage: float) -> float:
        """Error rate of the share of pixels with the lowest scores."""
        pixels = max(np.ceil(coverage * self.num_pixels), 1)
        return float(np.interp(pixels, self.covered, self.errors) / pixels)

    def points(self, most: int = 1000) -> dict[str, np.ndarray]:
        """The curve, thinned to at most ``most`` points."""
        i = 1 + _thinned(self.covered[1:] / self.num_pixels, most)
        return dict(
            coverage=self.covered[i] / self.num_pixels,
            risk=self.errors[i] / self.covered[i])


def equal_mass_bins(histogram: ScoreHistogram, num_bins: int) -> np.ndarray:
    """Divide pixels into bins of equal size, in the order of confidence.

    Args:
        histogram (ScoreHistogram): Confidences, with labels 0 (right) and 1
            (wrong). Pixels of equal confidence are shared out in proportion.
        num_bins (int): Number of bins.

    Returns:
        np.ndarray: Number of pixels, sum of confidences and number of right
        pixels in each bin, ``[3, num_bins]``.
    """
    histogram = histogram.cpu()
    counts = histogram.counts.numpy()
    value = (scores_of(histogram.low) + scores_of(histogram.high)) / 2
    pixels = counts.sum(1)
    sums = np.stack([pixels, pixels * value, counts[:, 0]]).cumsum(1)
    sums = np.pad(sums, ((0, 0), (1, 0)))
    edges = sums[0, -1] * np.arange(num_bins + 1) / num_bins
    return np.diff([np.interp(edges, sums[0], row) for row in sums])


def _stands_out(count: np.ndarray, factor: int = 4) -> np.ndarray:
    padded = np.pad(count, 1)
    return count > factor * np.maximum(padded[:-2], padded[2:])


def _thinned(position: np.ndarray, most: int) -> np.ndarray:
    """Indices of at most ``most`` points, evenly spread along a curve."""
    wanted = np.linspace(position[0], position[-1], most)
    return np.unique(np.searchsorted(position, wanted))
