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
HALF, ONE = 126 << 23, 127 << 23  # bit patterns of 0.5 and 1
ORIGIN = 1 << 33  # the key of 0: keys are never negative
LABEL_BITS = 2


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
    bits = size.view(torch.int32).long()
    inside, outside = size >= 0.5, size > 1
    if inside.any():
        # 1 - x is exact in float32 here, so no two scores share a key.
        folded = 2 * HALF - (1 - size).view(torch.int32).long()
        bits = torch.where(outside, bits + (2 * HALF - ONE),
                           torch.where(inside, folded, bits))
    if (scores < 0).any():
        bits = torch.where(scores < 0, -bits, bits)
    return bits.add_(ORIGIN)


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
    if max_bins < len(keys) and _over(differ, level, max_bins):
        # Levels only merge bins, so the search may halve the range.
        low, high = level, ORIGIN.bit_length() + 1
        while high - low > 1:
            middle = (low + high) // 2
            if _over(differ, middle, max_bins):
                low = middle
            else:
                high = middle
        level = high
    starts = (differ >= 1 << level).nonzero().flatten() + 1
    return torch.cat([starts.new_zeros(1), starts]), level


def _over(differ: Tensor, level: int, max_bins: int) -> bool:
    return (differ >= 1 << level).sum().item() + 1 > max_bins


def _count_labels(labels: Tensor, starts: Tensor, ends: Tensor,
                  num_labels: int) -> Tensor:
    counts = [ends - starts]
    for label in range(1, num_labels):
        mask = labels == label
        if not mask.any():
            counts.append(torch.zeros_like(starts))
            continue
        total = torch.cat([starts.new_zeros(1), mask.cumsum(0)])
        counts.append(total[ends] - total[starts])
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
    if keys.device.type == 'cpu':
        return torch.from_numpy(np.argsort(keys.numpy()))
    return keys.argsort()
