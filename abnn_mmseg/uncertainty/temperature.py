"""Temperature: one number that calibrates a mean probability.

With p the mean probability, ``p_T`` is proportional to ``p ** (1 / T)``: the
class map stays, the confidence falls for T > 1 and rises for T < 1.
"""
import math

import torch
from torch import Tensor

# The highest temperature; probabilities are nearly uniform.
HOTTEST = 100.


def temper(log_probability: Tensor, temperature: float,
           dim: int = 0) -> Tensor:
    """``log p_T`` from ``log p``; T = 1 changes nothing."""
    if temperature == 1:
        return log_probability
    return (log_probability / temperature).log_softmax(dim)


def fit_temperature(log_probability: Tensor, labels: Tensor) -> float:
    """The T with the smallest negative log-likelihood (Guo et al., 2017).

    The NLL is convex in b = 1 / T, with the slope

        d NLL / d b = mean_i ( E_{c ~ p_T} log p_ic - log p_iy ),

    so bisection finds its zero.

    Args:
        log_probability (Tensor): ``[N, C]``.
        labels (Tensor): Classes ``[N]``.
    """
    if not len(labels):
        raise ValueError('there is no labelled pixel to fit a temperature '
                         'to; check the labels of the validation set.')
    true = log_probability.gather(1, labels[:, None])[:, 0]

    def slope(inverse: float) -> float:
        """Derivative of the mean NLL with respect to 1 / temperature."""
        probability = (log_probability * inverse).softmax(1)
        expected = (probability * log_probability).sum(1)
        return (expected - true).double().mean().item()

    low, high = -math.log(HOTTEST), math.log(HOTTEST)
    for _ in range(40):
        middle = (low + high) / 2
        if slope(math.exp(middle)) < 0:
            low = middle
        else:
            high = middle
    return math.exp(-(low + high) / 2)


def negative_log_likelihood(log_probability: Tensor, labels: Tensor,
                            temperature: float = 1.) -> float:
    """Mean of ``-log p_T`` of the labels, in nats."""
    tempered = temper(log_probability, temperature, dim=1)
    return torch.nn.functional.nll_loss(tempered.double(), labels).item()
