"""A histogram of scores that merges exactly and has bounded size.

Each score becomes an integer key in the same order. A bin holds all keys that
are equal without their last ``level`` bits; empty bins are not stored. If
there are more than ``max_bins`` bins, ``level`` rises until they fit. So it is
the smallest level that fits *all* data, however the data was split, ordered
and merged.

The key of a float32 is its bit pattern, so the width of bins is relative. In
[0.5, 1] it is the pattern of ``1 - x``, so bins are as fine near 1 as near 0.
Up to ``max_bins`` distinct scores are kept exactly.
"""

import numpy as np
import torch
from torch import Tensor

MAX_BINS = 2**18
HALF, ONE = 126 << 23, 127 << 23  # bit patterns of 0.5 and 1
ORIGIN = 1 << 33  # the key of 0: keys are never negative
KEY_BITS = 34
EXPONENT = 1023  # exponent field of the double 1
BLOCK = 2**16


def check_max_bins(max_bins: int) -> int:
    """Raise ValueError unless this is a number of bins."""
    whole = isinstance(max_bins, int) and not isinstance(max_bins, bool)
    if not whole or max_bins < 1:
        raise ValueError(f'max_bins={max_bins!r} is not a number of bins; '
                         f'write a positive integer such as {MAX_BINS}.')
    return max_bins


class ScoreHistogram:
    """Counts of pixels by score and label, in bounded memory.

    Attributes:
        low, high (Tensor): Smallest and largest key in each bin, ascending,
            int64 ``[N]``; equal if all pixels of the bin have one score.
        counts (Tensor): Pixels of each label in each bin, int64 ``[N, L]``.
        level (int): Number of low bits of a key that bins ignore; 0 is exact.
        max_bins (int): The largest N.
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
            labels (Tensor): An integer in 0 .. num_labels - 1 for each.
            num_labels (int): Defaults to 2.
            max_bins (int): Bins to keep at most. Defaults to 2**18.
        """
        scores, labels = scores.flatten().float(), labels.flatten()
        ordered = _sorted(scores)
        starts, level = _find_bins(_levels_of_scores(ordered), 0, max_bins)
        starts = starts[:len(ordered)]
        ends = torch.cat([starts[1:], starts.new_tensor([len(ordered)])])
        ends = ends[:len(starts)]
        counts = [ends - starts]
        for label in range(1, num_labels):
            # A search by the first score of each bin is fast, because there
            # are few bins, and few pixels of these labels.
            few = _sorted(scores[indices_of(labels == label)])
            before = torch.searchsorted(few, ordered[starts])
            counts.append(before.diff(append=before.new_tensor([len(few)])))
            counts[0] = counts[0] - counts[-1]
        return cls(
            keys_of(ordered[starts]), keys_of(ordered[ends - 1]),
            torch.stack(counts, 1), level, max_bins)

    def merge(self, other: 'ScoreHistogram') -> 'ScoreHistogram':
        """The histogram of the data of both."""
        max_bins = min(self.max_bins, other.max_bins)
        low = torch.cat([self.low, other.low])
        order = _argsort(low)
        if len(low) == 0:
            return self
        low = low[order]
        starts, level = _find_bins(
            _levels(low), max(self.level, other.level), max_bins)
        last = torch.cat([starts[1:], starts.new_tensor([len(low)])]) - 1
        # Bins ascend and do not overlap, so the largest key and the pixels of
        # each follow from cumulative maxima and sums.
        high = torch.cat([self.high, other.high])[order].cummax(0).values
        counts = torch.cat([self.counts, other.counts])
        until = counts.index_select(0, order).cumsum(0).index_select(0, last)
        counts = until.diff(dim=0, prepend=until.new_zeros(1, until.shape[1]))
        return ScoreHistogram(low[starts], high[last], counts, level,
                              max_bins)

    def keep_labels(self, num_labels: int) -> 'ScoreHistogram':
        """Drop the pixels of all labels from ``num_labels`` on."""
        counts = self.counts[:, :num_labels]
        used = counts.any(1)
        return ScoreHistogram(self.low[used], self.high[used], counts[used],
                              self.level, self.max_bins)

    def cpu(self) -> 'ScoreHistogram':
        """A copy on the CPU."""
        return ScoreHistogram(self.low.cpu(), self.high.cpu(),
                              self.counts.cpu(), self.level, self.max_bins)


def keys_of(scores: Tensor) -> Tensor:
    """Integers (int64, not negative) for ascending float32 scores.

    Equal scores have equal keys, larger ones larger keys.
    """
    # Scores are sorted: the negative ones come first.
    negative = int(torch.searchsorted(scores, 0.))
    keys = torch.cat([
        _keys_of_sizes(scores[:negative].neg().flip(0)).neg_().flip(0),
        _keys_of_sizes(scores[negative:] + 0.)  # -0 becomes 0
    ])
    return keys.add_(ORIGIN)


def _keys_of_sizes(sizes: Tensor) -> Tensor:
    half = int(torch.searchsorted(sizes, 0.5))
    one = int(torch.searchsorted(sizes, 1., right=True))
    keys = sizes.view(torch.int32).long()
    # 1 - x is exact here, so no two scores share a key.
    keys[half:one] = 2 * HALF - (1 - sizes[half:one]).view(torch.int32)
    keys[one:] += 2 * HALF - ONE
    return keys


def scores_of(keys: Tensor) -> np.ndarray:
    """The scores (float64) of keys: the inverse of :func:`keys_of`."""
    signed = keys.cpu().numpy() - ORIGIN
    bits = np.abs(signed)
    folded = (bits > HALF) & (bits <= 2 * HALF)
    plain = np.where(bits > 2 * HALF, bits - 2 * HALF + ONE, bits)
    pattern = np.where(folded, 2 * HALF - bits, plain).astype(np.int32)
    size = pattern.view(np.float32).astype(np.float64)
    return np.where(folded, 1 - size, size) * np.where(signed < 0, -1, 1)


def _levels(keys: Tensor) -> Tensor:
    """The lowest level at which each key shares a bin with the one before.

    Keys are sorted; levels are uint8.
    """
    differ = (keys[1:] ^ keys[:-1]).double().view(torch.int64)
    # The exponent of a double is the highest bit in which the two differ.
    differ >>= 52
    return differ.sub_(EXPONENT - 1).clamp_(0).to(torch.uint8)


def _levels_of_scores(scores: Tensor) -> Tensor:
    # In blocks that fit into the processor's cache.
    return torch.cat([
        _levels(keys_of(scores[start:start + BLOCK + 1]))
        for start in range(0, max(1, len(scores) - 1), BLOCK)
    ])


def _find_bins(levels: Tensor, level: int,
               max_bins: int) -> tuple[Tensor, int]:
    """Starts of the bins, at the lowest level from ``level`` that fits."""
    later = torch.bincount(levels, minlength=KEY_BITS + 1)
    # The number of bins after the first one, at each level.
    later = len(levels) - later.cumsum(0)
    level += int((later[level:] >= max_bins).sum())
    starts = indices_of(levels > level) + 1
    return torch.cat([starts.new_zeros(1), starts]), level


def _sorted(scores: Tensor) -> Tensor:
    # On a CPU, numpy sorts many times faster than torch, which also sorts
    # indices.
    if scores.device.type == 'cpu':
        return torch.from_numpy(np.sort(scores.numpy()))
    return scores.sort().values


def indices_of(mask: Tensor) -> Tensor:
    """Indices where a flat mask is true; faster than ``nonzero`` on a CPU."""
    if mask.device.type == 'cpu':
        return torch.from_numpy(np.flatnonzero(mask.numpy()))
    return mask.nonzero().flatten()


def _argsort(keys: Tensor) -> Tensor:
    # The stable sort is linear for two sorted halves.
    if keys.device.type == 'cpu':
        return torch.from_numpy(np.argsort(keys.numpy(), kind='stable'))
    return keys.argsort()
