"""A histogram of scores that merges exactly and never grows.

Each score becomes an integer key in the same order. A bin holds all keys that
agree but for their last ``level`` bits, and only bins that hold something are
stored. When there are more than ``max_bins`` of them, ``level`` rises until
they fit: so it is the smallest level that fits *all* the data, whatever the
order the data came in or was merged in, and however it was split.

The key of a float32 is its bit pattern, i.e. bins have a relative width; in
[0.5, 1] it is that of ``1 - x``, so bins are as fine near 1 as near 0. Up to
``max_bins`` distinct scores (heavy ties, 8-bit maps) are kept exactly.
"""

import numpy as np
import torch
from torch import Tensor

MAX_BINS = 2**18
SHIFT, HALF, ONE = (bits << 23 for bits in (125, 126, 127))  # 0.25, 0.5, 1
ORIGIN = 1 << 33  # the key of 0: keys are never negative
KEY_BITS, LABEL_BITS = 34, 2
EXPONENT = 1023  # exponent field of the double 1


class ScoreHistogram:
    """Counts of pixels by score and label, in bounded memory.

    Attributes:
        low, high (Tensor): Smallest and largest key in each bin, ascending,
            int64 ``[N]``; equal if all pixels of the bin have one score.
        counts (Tensor): Pixels of each label in each bin, int64 ``[N, L]``.
        level (int): Low bits of the key that a bin ignores; 0 is exact.
        max_bins (int): N never exceeds it.
    """

    def __init__(self,
                 low: Tensor,
                 high: Tensor,
                 counts: Tensor,
                 level: int = 0,
                 max_bins: int = MAX_BINS) -> None:
        self.low, self.high, self.counts = low, high, counts
        self.level, self.max_bins = level, max_bins

    @classmethod
    def from_scores(cls,
                    scores: Tensor,
                    labels: Tensor,
                    num_labels: int = 2,
                    max_bins: int = MAX_BINS) -> 'ScoreHistogram':
        """Count scores, by label.

        Args:
            scores (Tensor): Any finite or infinite values, no NaN.
            labels (Tensor): As many integers in 0 .. num_labels - 1.
            num_labels (int): At most 4. Default: 2.
            max_bins (int): Bins to keep at most. Default: 2**18.
        """
        assert num_labels <= 1 << LABEL_BITS
        packed = keys_of(scores.flatten())
        packed <<= LABEL_BITS
        packed |= labels.flatten()
        packed = _sort(packed)
        keys = packed >> LABEL_BITS
        starts, level = _find_bins(keys, 0, max_bins)
        ends = torch.cat([starts[1:], starts.new_tensor([keys.numel()])])
        ends = ends[:starts.numel()]
        packed &= (1 << LABEL_BITS) - 1
        return cls(keys[starts], keys[ends - 1],
                   _count_labels(packed, starts, ends, num_labels), level,
                   max_bins)

    def merge(self, other: 'ScoreHistogram') -> 'ScoreHistogram':
        """The histogram of both data sets together."""
        low = torch.cat([self.low, other.low])
        order = _argsort(low)
        low = low[order]
        high = torch.cat([self.high, other.high])[order]
        counts = torch.cat([self.counts, other.counts])[order]
        starts, level = _find_bins(low, max(self.level, other.level),
                                   min(self.max_bins, other.max_bins))
        bins = torch.zeros_like(low)
        bins[starts[1:]] = 1
        bins = bins.cumsum(0)
        merged = counts.new_zeros(len(starts), counts.shape[1])
        return ScoreHistogram(
            low[starts], low[starts].scatter_reduce(0, bins, high, 'amax'),
            merged.index_add_(0, bins, counts), level,
            min(self.max_bins, other.max_bins))

    def keep_labels(self, num_labels: int) -> 'ScoreHistogram':
        """Forget the pixels of all labels from ``num_labels`` on."""
        counts = self.counts[:, :num_labels]
        used = counts.any(1)
        return ScoreHistogram(self.low[used], self.high[used], counts[used],
                              self.level, self.max_bins)

    def cpu(self) -> 'ScoreHistogram':
        """A copy on the CPU."""
        return ScoreHistogram(self.low.cpu(), self.high.cpu(),
                              self.counts.cpu(), self.level, self.max_bins)


def keys_of(scores: Tensor) -> Tensor:
    """Integers (int64, not negative) in the order of float32 scores."""
    scores = scores.float()
    size = scores.abs()
    bits = size.view(torch.int32)
    # In int32 while possible, which is twice as fast. 1 - x is exact where
    # it is used, so no two scores share a key.
    folded = ONE - (1 - size).view(torch.int32)
    keys = torch.where(size < 0.5, bits - SHIFT, folded)
    keys = torch.where(size > 1, bits, keys).long().add_(SHIFT)
    if (scores < 0).any():
        keys = torch.where(scores < 0, -keys, keys)
    return keys.add_(ORIGIN)


def scores_of(keys: Tensor) -> np.ndarray:
    """The scores (float64) of keys: the inverse of :func:`keys_of`."""
    keys = keys.cpu().numpy() - ORIGIN
    bits = np.abs(keys)
    folded = (bits > HALF) & (bits <= 2 * HALF)
    plain = np.where(bits > 2 * HALF, bits - 2 * HALF + ONE, bits)
    pattern = np.where(folded, 2 * HALF - bits, plain).astype(np.int32)
    size = pattern.view(np.float32).astype(np.float64)
    return np.where(folded, 1 - size, size) * np.where(keys < 0, -1, 1)


def _find_bins(keys: Tensor, level: int,
               max_bins: int) -> tuple[Tensor, int]:
    """Where bins start in sorted keys, at the first level that fits."""
    if keys.numel() == 0:
        return keys.new_zeros(0), level
    differ = keys[1:] ^ keys[:-1]
    if max_bins < len(keys):
        # The exponent of the double is the highest bit in which neighbours
        # differ: they share a bin from the level above on.
        exponent = differ.double().view(torch.int64) >> 52
        starts = torch.bincount(exponent, minlength=EXPONENT + KEY_BITS)
        starts = starts[EXPONENT + level:].flip(0).cumsum(0).flip(0)
        level += int((starts >= max_bins).sum())
    starts = (differ >= 1 << level).nonzero().flatten() + 1
    return torch.cat([starts.new_zeros(1), starts]), level


def _count_labels(labels: Tensor, starts: Tensor, ends: Tensor,
                  num_labels: int) -> Tensor:
    counts = [ends - starts]
    for label in range(1, num_labels):
        until = (labels == label).cumsum(0, dtype=torch.int32)[ends - 1]
        counts.append(until.diff(prepend=until.new_zeros(1)).long())
        counts[0] = counts[0] - counts[-1]
    return torch.stack(counts, 1)


def _sort(keys: Tensor) -> Tensor:
    # numpy sorts integers with vector instructions, torch's CPU sort drags
    # the indices along: two to three times slower.
    if keys.device.type == 'cpu':
        array = keys.numpy()
        array.sort()
        return keys
    return keys.sort().values


def _argsort(keys: Tensor) -> Tensor:
    # Stable is a merge sort: linear for the two sorted halves it gets.
    if keys.device.type == 'cpu':
        return torch.from_numpy(np.argsort(keys.numpy(), kind='stable'))
    return keys.argsort()
