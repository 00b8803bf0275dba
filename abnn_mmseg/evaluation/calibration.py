"""Measure how well predicted probabilities match the accuracy."""
import math
from collections.abc import Sequence
from typing import Optional

import numpy as np
import torch
from mmseg.registry import METRICS
from torch import Tensor

from abnn_mmseg.evaluation.curves import equal_mass_bins
from abnn_mmseg.evaluation.fields import IGNORE, class_labels, class_logits
from abnn_mmseg.evaluation.histograms import (
    MAX_BINS,
    ScoreHistogram,
    check_max_bins,
    indices_of,
)
from abnn_mmseg.evaluation.plots import save_reliability
from abnn_mmseg.evaluation.running import RunningMetric, Totals
from abnn_mmseg.utils.choices import all_of

PROTOCOLS = ('pooled', 'muad')
# Pixels in a chunk; temporary [C, pixels] tensors stay in the cache.
CHUNK = 2**15
# Sums of probabilities are integers in this unit, so that their total does
# not depend on the order.
UNIT = 2.**-24


@METRICS.register_module()
class CalibrationMetric(RunningMetric):
    """ECE, MCE, classwise and adaptive ECE (in percent), NLL and Brier.

    The confidence is the largest mean probability; a pixel is right if its
    class is the ground truth; bin b holds n_b of n pixels:

    - ``ECE = sum_b n_b / n |accuracy_b - confidence_b|`` over ``num_bins``
      bins of equal width, ``(lower, upper]``; ``MCE`` the largest gap;
    - ``ECE_adaptive``: the same over bins with equally many pixels;
    - ``ECE_classwise``: ECE of the probability of class c as a prediction of
      'is c', averaged over all C classes;
    - ``NLL``: mean of -log probability of the true class, in nats;
    - ``Brier``: mean of ``sum_c (p_c - [c is true])^2``, in 0 .. 2.

    Protocols: ``pooled`` takes all pixels of the set that have a class, so
    neither void nor OOD. ``muad`` (MUAD's evaluation code) is the mean over
    images of the ECE over *all* pixels; void and OOD pixels are errors.

    Args:
        num_bins (int): Defaults to 15.
        protocols (Sequence[str]): Defaults to both.
        max_bins (int): Bins of the confidence histogram. Defaults to 2**18.
        plot_dir (str, optional): Folder for the reliability diagram.
        **kwargs: See :class:`mmengine.evaluator.BaseMetric`.
    """

    default_prefix = 'cal'

    def __init__(self,
                 num_bins: int = 15,
                 protocols: Sequence = PROTOCOLS,
                 max_bins: int = MAX_BINS,
                 plot_dir: Optional[str] = None,
                 **kwargs) -> None:
        super().__init__(plot_dir=plot_dir, **kwargs)
        if num_bins < 1:
            raise ValueError(f'num_bins={num_bins}: give at least 1')
        self.num_bins = num_bins
        self.protocols = all_of('protocol', protocols, PROTOCOLS)
        self.max_bins = check_max_bins(max_bins)

    def measure(self, sample: dict) -> tuple[dict, Totals]:
        """Losses and ECE of one image, and its bins to pool."""
        logits = class_logits(sample)
        labels = class_labels(sample)
        chunks = zip(logits.split(CHUNK, 1), labels.split(CHUNK))
        chunks = zip(*(self._measure_chunk(*chunk) for chunk in chunks))
        confidence, right, losses, top, classes = chunks
        known = indices_of(labels != IGNORE)
        histogram = ScoreHistogram.from_scores(
            torch.cat(confidence)[known], (~torch.cat(right))[known],
            max_bins=self.max_bins)
        top = sum(top)
        nll, brier = sum(losses).tolist()
        numbers = dict(
            pixels=len(known),
            nll=nll,
            brier=brier,
            muad=_ece(*top.sum(1).cpu().numpy()))
        totals = dict(
            confidence=histogram,
            top=_fixed_point(top[:, 1]),
            classes=_fixed_point(sum(classes)))
        return numbers, totals

    def _measure_chunk(self, logits: Tensor, labels: Tensor) -> tuple:
        """Confidence, correctness, losses and bins of a few pixels."""
        known = labels != IGNORE
        true = labels.where(known, 0)
        top, logit = logits.amax(0), logits.gather(0, true[None])[0]
        # Softmax in steps, because its intermediate values are used below.
        prob = (logits - top).exp_()
        total = prob.sum(0)
        confidence = total.reciprocal()
        prob *= confidence
        right = _is_first_maximum(logits, top, true, logit, confidence)
        right &= known
        binned = self._bin_confidence(confidence, known, right)
        prob_true = prob.gather(0, true[None])[0]
        nll = total.log_() + top - logit
        brier = prob.square().sum(0) - 2 * prob_true + 1
        losses = torch.stack([nll, brier]).double().where(known, 0).sum(1)
        bins = self._bin(prob_true) + self.num_bins * true
        bins = bins.where(known, self.num_bins * len(prob))
        # A weight of 0 for pixels without a class is cheaper than a selection.
        classes = self._bin_classes(prob.mul_(known), bins)
        return confidence, right, losses, binned, classes

    def _bin_confidence(self, confidence: Tensor, known: Tensor,
                        right: Tensor) -> Tensor:
        """Per bin: pixels, sum of confidences, right pixels.

        ``[3, 2, num_bins]``: the second axis is pixels without and with a
        class, since 'muad' needs both.
        """
        bins = self._bin(confidence) + self.num_bins * known.int()
        size = 2 * self.num_bins
        sums = _sum(bins, confidence, size)
        wrong, right = torch.bincount(
            bins + size * right.int(), minlength=2 * size).view(2, size)
        return torch.stack([wrong + right, sums, right]).view(3, 2, -1)

    def _bin_classes(self, prob: Tensor, right: Tensor) -> Tensor:
        """Right pixels minus probabilities per bin, ``[C, num_bins]``.

        Args:
            prob (Tensor): ``[C, N]``, zero for pixels without a class.
            right (Tensor): Bin of the true class's probability, ``[N]``;
                beyond the last for pixels without a class.
        """
        size = len(prob) * self.num_bins
        # Most are in the first bin, whose sum is the rest of the total.
        index = indices_of((prob > 0.999 / self.num_bins).flatten())
        values = prob.flatten()[index]
        bins = self._bin(values) + self.num_bins * (index // prob.shape[1])
        sums = _sum(bins, values, size).view(-1, self.num_bins)
        sums[:, 0] += prob.sum(1) - sums.sum(1)
        right = torch.bincount(right, minlength=size + 1)[:size]
        return right.view(-1, self.num_bins) - sums

    def _bin(self, prob: Tensor) -> Tensor:
        """Index of the bin ``(lower, upper]`` of each probability."""
        bins = (prob * self.num_bins).ceil_().clamp_(1, self.num_bins)
        return bins.int() - 1

    def summarize(self, results: list, totals: Totals) -> dict[str, float]:
        """Pooled values from the bins, mean of the per-image ECE."""
        metrics = {}
        if 'muad' in self.protocols:
            images = [numbers['muad'] for numbers in results]
            metrics['muad/ECE'] = (100 * math.fsum(images) / len(images)
                                   if images else math.nan)
        if 'pooled' in self.protocols:
            metrics.update(self._pooled(results, totals))
        return metrics

    def _pooled(self, results: list, totals: Totals) -> dict[str, float]:
        names = ('ECE', 'ECE_adaptive', 'MCE', 'ECE_classwise', 'NLL',
                 'Brier')
        pixels = sum(numbers['pixels'] for numbers in results)
        if pixels == 0:
            self.warn(f'none of the {len(results)} images has a pixel with a '
                      'class (gt_sem_seg != 255): all values are NaN.')
            return {f'pooled/{name}': math.nan for name in names}
        top = _floating_point(totals['top'])
        count, confidence, right = top
        if self.plot_dir:
            save_reliability(count, confidence, right, self.plot_dir,
                             self.prefix)
        adaptive = equal_mass_bins(totals['confidence'], self.num_bins)
        classes = _floating_point(totals['classes'])
        count, confidence, right = top[:, top[0] > 0]
        values = (100 * _ece(*top), 100 * _ece(*adaptive),
                  100 * np.max(np.abs(right - confidence) / count),
                  100 * np.abs(classes).sum() / pixels / len(classes),
                  math.fsum(n['nll'] for n in results) / pixels,
                  math.fsum(n['brier'] for n in results) / pixels)
        return {f'pooled/{n}': float(v) for n, v in zip(names, values)}


def _is_first_maximum(logits: Tensor, maximum: Tensor, index: Tensor,
                      logit_of_index: Tensor, confidence: Tensor) -> Tensor:
    """``logits.argmax(0) == index``, five times faster."""
    equal = logit_of_index == maximum
    # Up to 0.5, another class may be equally likely; the first one counts.
    unsure = (equal & (confidence <= 0.5)).nonzero().flatten()
    tied = logits.index_select(1, unsure) == maximum[unsure]
    unsure = unsure[tied.float().sum(0) > 1]
    equal[unsure] = logits[:, unsure].max(0).indices == index[unsure]
    return equal


def _sum(bins: Tensor, prob: Tensor, size: int) -> Tensor:
    # In double, because bincount adds float32 weights in float32. Without
    # weights it returns integers.
    return torch.bincount(bins, prob.double(), size).double()


def _ece(count: np.ndarray, confidence: np.ndarray,
         right: np.ndarray) -> float:
    """``sum_b n_b / n |accuracy_b - confidence_b|``, from sums per bin."""
    return float(np.abs(right - confidence).sum() / count.sum())


def _fixed_point(sums: Tensor) -> Tensor:
    return (sums / UNIT).round_().long()


def _floating_point(sums: Tensor) -> np.ndarray:
    return sums.cpu().double().numpy() * UNIT
