"""Statistics of K networks' outputs, updated draw by draw.

Memory does not grow with K: the state is one mean probability, one mean logit
if a score needs it, and two scalar maps.
"""

import torch
from torch import Tensor


def as_classes(logits: Tensor) -> Tensor:
    """Logits of all classes, ``[n, C, H, W]``.

    A head with one channel has two classes; the background's logit is zero.
    """
    if logits.shape[1] > 1:
        return logits
    return torch.cat([torch.zeros_like(logits), logits], 1)


class StreamingStatistics:
    """Running sums over the networks of a posterior, for one image.

    Every score of :mod:`abnn_mmseg.uncertainty.scores` is a function of the
    four means below. All are float32, whatever type the logits have.

    Args:
        with_logits (bool): Keep the mean logits too. Defaults to True.

    Attributes:
        count (int): Networks seen.
        probability (Tensor): Mean softmax, ``[C, H, W]``.
        expected_entropy (Tensor): Mean entropy of the softmax, ``[H, W]``.
        second_moment (Tensor): Mean of ``sum_c p_c ** 2``, ``[H, W]``.
        logits (Tensor): Mean of the logits, ``[C, H, W]``.
    """

    NAMES = ('probability', 'expected_entropy', 'second_moment', 'logits')

    def __init__(self, with_logits: bool = True) -> None:
        self.with_logits = with_logits
        self.count = 0
        self._sums: dict[str, Tensor] = {}

    def update(self, logits: Tensor) -> None:
        """Take in the logits of n networks, ``[n, C, H, W]``."""
        logits = as_classes(logits.float())
        probability = logits.softmax(1)
        # H = -sum p log p with log p = z - logsumexp(z); a class of
        # probability zero and logit -inf contributes nothing.
        entropy = logits.logsumexp(1) - torch.nan_to_num(
            probability * logits).sum(1)
        self._add('probability', probability)
        self._add('expected_entropy', entropy.clamp_min_(0))
        self._add('second_moment', probability.square().sum(1))
        if self.with_logits:
            self._add('logits', logits)
        self.count += len(logits)

    def include(self, means: dict[str, Tensor], count: int) -> None:
        """Take in the means of ``count`` networks, by name."""
        for name, mean in means.items():
            if name != 'logits' or self.with_logits:
                self._add(name, count * mean[None])
        self.count += count

    def merge(self, other: 'StreamingStatistics') -> None:
        """Take in the networks of other statistics."""
        for name, total in other._sums.items():
            self._sums[name] = self._sums[name] + total
        self.count += other.count

    def _add(self, name: str, values: Tensor) -> None:
        total = values[0] if len(values) == 1 else values.sum(0)
        if name in self._sums:
            self._sums[name] += total
        else:
            self._sums[name] = total.clone() if len(values) == 1 else total

    def __getattr__(self, name: str) -> Tensor:
        if name not in StreamingStatistics.NAMES:
            raise AttributeError(name)
        if not self.count:
            raise ValueError('the statistics are empty: no network was drawn')
        return self._sums[name] / self.count

    def standard_error(self) -> Tensor:
        """The standard error of the mean probability, averaged over pixels.

            sqrt(sum_c s_c^2 / K),  s_c^2 = sum_k (p_kc - p_c)^2 / (K - 1)

        This assumes independent networks. With all members and antithetic
        pairs the true error is smaller. It is NaN for a single network.
        """
        variance = self.second_moment - self.probability.square().sum(0)
        if self.count < 2:
            return variance.new_full((), float('nan'))
        return (variance.clamp_min(0) / (self.count - 1)).sqrt().mean()
