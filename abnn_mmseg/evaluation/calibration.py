"""Whether predicted probabilities come true."""
import math
from collections.abc import Sequence
from typing import Optional

import numpy as np
import torch
from mmseg.registry import METRICS
from torch import Tensor

from .curves import equal_mass_bins
from .fields import IGNORE, check_names, class_labels, class_logits
from .histograms import MAX_BINS, ScoreHistogram
from .plots import save_reliability
from .running import RunningMetric, Totals

PROTOCOLS = ('pooled', 'muad')
# Pixels at a time: bounds the temporary [C, pixels] tensors, and keeps them
# in the processor's cache.
CHUNK = 2**15
# Sums of probabilities are kept as integers of this unit: integers add up to
# the same total in any order.
UNIT = 2.**-24


@METRICS.register_module()
class CalibrationMetric(RunningMetric):
    """ECE, MCE, classwise and adaptive ECE (in percent), NLL and Brier.

    With confidence = the largest mean probability, right = its class is the
    ground truth, bin b holding n_b of n pixels:

    - ``ECE = sum_b n_b / n |accuracy_b - confidence_b|`` over ``num_bins``
      bins of equal width, ``(lower, upper]``; ``MCE`` the largest gap;
    - ``ECE_adaptive``: the same over bins with equally many pixels;
    - ``ECE_classwise``: ECE of the probability of class c as a prediction of
      'is c', averaged over all C classes;
    - ``NLL``: mean of -log probability of the true class, in nats;
    - ``Brier``: mean of ``sum_c (p_c - [c is true])^2``, in 0 .. 2.

    Protocols: ``pooled`` is all pixels of the set that have a class (void and
    OOD left out). ``muad`` (MUAD's evaluation code) gives the ECE of each
    image over *all* its pixels, void and OOD being errors, averaged.

    Args:
        num_bins (int): Default: 15.
        protocols (Sequence[str]): Default: both.
        max_bins (int): Bins of the confidence histogram. Default: 2**18.
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
        self.protocols = check_names(protocols, PROTOCOLS, 'protocol')
        self.max_bins = max_bins

    def measure(self, sample: dict) -> tuple[dict, Totals]:
        """Losses and ECE of one image, and its bins to pool."""
        logits = class_logits(sample)
        labels = class_labels(sample, len(logits))
        chunks = zip(logits.split(CHUNK, 1), labels.split(CHUNK))
        chunks = zip(*(self._measure_chunk(*chunk) for chunk in chunks))
        confidence, right, losses, top, classes = chunks
        known = labels != IGNORE
        histogram = ScoreHistogram.from_scores(
            torch.cat(confidence)[known], (~torch.cat(right))[known],
            max_bins=self.max_bins)
        top = sum(top)
        nll, brier = sum(losses).tolist()
        numbers = dict(
            pixels=int(known.sum()),
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
        prob, known = logits.softmax(0), labels != IGNORE
        confidence = prob.amax(0)
        true = labels.where(known, 0)[None]
        prob_true = prob.gather(0, true)[0]
        right = _is_first_maximum(prob, confidence, true[0], prob_true)
        right &= known
        # Pixels without and with a class apart: 'muad' needs both.
        bins = self._bin(confidence) + self.num_bins * known.int()
        top = _sums(bins, confidence, right, 2 * self.num_bins)
        # logsumexp, without a second pass over all classes
        total = logits.amax(0) - confidence.log()
        nll = total - logits.gather(0, true)[0]
        brier = prob.square().sum(0) - 2 * prob_true + 1
        losses = torch.stack([nll, brier]).double().where(known, 0).sum(1)
        bins = self._bin(prob_true) + self.num_bins * true[0]
        classes = self._bin_classes(prob, known, bins[known])
        return confidence, right, losses, top.view(3, 2, -1), classes

    def _bin_classes(self, prob: Tensor, known: Tensor,
                     right: Tensor) -> Tensor:
        """Right pixels minus probabilities per bin, ``[C, num_bins]``."""
        size = len(prob) * self.num_bins
        first = torch.arange(
            0, size, self.num_bins, dtype=torch.int32, device=prob.device)
        bins = self._bin(prob).add_(first[:, None])
        # Pixels without a class weigh nothing: cheaper than picking the
        # others out of a [C, pixels] tensor.
        prob = _sum(bins, prob * known, size)
        right = torch.bincount(right, minlength=size)
        return (right - prob).view(-1, self.num_bins)

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
        if self.plot_dir:
            save_reliability(*top, self.plot_dir, self.prefix)
        adaptive = equal_mass_bins(totals['confidence'], self.num_bins)
        classes = _floating_point(totals['classes'])
        count, confidence, right = top[:, top[0] > 0]
        values = (100 * _ece(*top), 100 * _ece(*adaptive),
                  100 * np.max(np.abs(right - confidence) / count),
                  100 * np.abs(classes).sum() / pixels / len(classes),
                  math.fsum(n['nll'] for n in results) / pixels,
                  math.fsum(n['brier'] for n in results) / pixels)
        return {f'pooled/{n}': float(v) for n, v in zip(names, values)}


def _is_first_maximum(prob: Tensor, maximum: Tensor, index: Tensor,
                      prob_of_index: Tensor) -> Tensor:
    """``prob.argmax(0) == index``, five times faster."""
    equal = prob_of_index == maximum
    # Up to 0.5, another class may be as likely: the first of them counts.
    unsure = (equal & (maximum <= 0.5)).nonzero().flatten()
    equal[unsure] = prob[:, unsure].max(0).indices == index[unsure]
    return equal


def _sums(bins: Tensor, prob: Tensor, right: Tensor, size: int) -> Tensor:
    """Per bin: pixels, sum of probabilities, right pixels; ``[3, size]``."""
    count = torch.bincount(bins, minlength=size)
    right = torch.bincount(bins[right], minlength=size)
    return torch.stack([count, _sum(bins, prob, size), right])


def _sum(bins: Tensor, prob: Tensor, size: int) -> Tensor:
    # In double: bincount adds float32 weights up in float32.
    return torch.bincount(bins.flatten(), prob.flatten().double(), size)


def _ece(count: np.ndarray, confidence: np.ndarray,
         right: np.ndarray) -> float:
    """``sum_b n_b / n |accuracy_b - confidence_b|``, from sums per bin."""
    return float(np.abs(right - confidence).sum() / count.sum())


def _fixed_point(sums: Tensor) -> Tensor:
    return (sums / UNIT).round_().long()


def _floating_point(sums: Tensor) -> np.ndarray:
    return sums.cpu().double().numpy() * UNIT
