"""Thresholds that keep a risk below a level: conformal risk control.

Let L_i(t) in [0, 1] be the loss of image i at threshold t, which does not
decrease with t, and R(t) the mean over n calibration images. Angelopoulos et
al. ("Conformal Risk Control", 2022) show that

    t = sup { t : n / (n + 1) * R(t) + 1 / (n + 1) <= level }

has E[L(t)] <= level on a new image that is exchangeable with these. Here a
loss is the share of an image's values below the threshold: probabilities of
the true class (label sets), or scores of unknown pixels (misses). If the loss
is 0 or 1, each image has one number, and t is that of split conformal
prediction: the ceil((n + 1)(1 - level))-th smallest.

Arithmetic is exact: levels are read as decimals, and shares are integers,
rounded up. So a threshold is the largest possible one or, if a histogram has
merged neighbouring values, a slightly smaller one.
"""
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Union

import torch
from torch import Tensor

from abnn_mmseg.evaluation.histograms import ScoreHistogram, scores_of

# A loss of 1 as an integer. The sum over 2**19 images fits in 64 bits; the
# rounding error of an image of 2**21 pixels is below 1.2e-7.
UNIT = 2**44


def exact(value: Union[float, Fraction]) -> Fraction:
    """A decimal as a fraction: 0.1 is one tenth."""
    return value if isinstance(value, Fraction) else Fraction(str(value))


def check_level(level: float) -> float:
    """Raise ValueError unless a level is a share."""
    if isinstance(level, bool) or not 0 < level < 1:
        raise ValueError(f'level={level} is not between 0 and 1; write 0.05 '
                         'for 5 %.')
    return level


def images_needed(level: float) -> int:
    """The smallest n with n + 1 >= 1 / level."""
    return math.ceil(1 / exact(level)) - 1


def check_images(level: float, images: int, what: str = 'images') -> None:
    """Raise ValueError if there are too few images for a level."""
    needed = images_needed(level)
    if images < needed:
        raise ValueError(
            f'{images} {what} cannot support level {level:g}: it takes at '
            f'least {needed} of them. Use more, or a level of '
            f'{math.ceil(1000 / (images + 1)) / 1000:g} or more.')


def shares(values: Tensor) -> ScoreHistogram:
    """A histogram of an image's values; their weights add up to ``UNIT``.

    Merging adds up the shares of several images.
    """
    histogram = ScoreHistogram.from_scores(
        values, torch.zeros_like(values, dtype=torch.uint8), 1)
    # Rounded up, so that a sum of losses is never too small.
    weight = -(-UNIT // values.numel())
    return ScoreHistogram(histogram.low, histogram.high,
                          histogram.counts * weight, histogram.level,
                          histogram.max_bins)


def controlled_threshold(total: ScoreHistogram, images: int,
                         level: float) -> float:
    """The largest threshold whose risk does not exceed the level.

    Args:
        total (ScoreHistogram): Sum of :func:`shares` of all images.
        images (int): Number of images.
        level (float): The promised risk.
    """
    check_images(level, images)
    budget = math.floor(UNIT * (exact(level) * (images + 1) - 1))
    below = total.counts[:, 0].cumsum(0) - total.counts[:, 0]
    last = int((below <= budget).sum()) - 1
    return float(scores_of(total.low[last:last + 1])[0])


def share_below(total: ScoreHistogram, images: int,
                threshold: float) -> float:
    """The mean over images of the share of values below a threshold."""
    values = scores_of(total.low)
    below = total.counts[:, 0].cpu().numpy()[values < threshold]
    return int(below.sum()) / UNIT / images


def conformal_quantile(numbers: Sequence[float], level: float) -> float:
    """The ceil((n + 1)(1 - level))-th smallest of n numbers.

    A new number exceeds it with probability at most ``level``.
    """
    check_images(level, len(numbers))
    rank = math.ceil((len(numbers) + 1) * (1 - exact(level)))
    return sorted(numbers)[rank - 1]


def covering_threshold(values: Tensor, part: float) -> float:
    """The largest threshold that at least this part of values reaches."""
    rank = math.ceil(exact(part) * values.numel())
    return _from_top(values, rank)


def exceeding_value(values: Tensor, part: float = 0.) -> float:
    """The smallest value that at most this part of the values exceeds."""
    rank = math.floor(exact(part) * values.numel()) + 1
    return _from_top(values, rank)


def _from_top(values: Tensor, rank: int) -> float:
    count = values.numel()
    return values.flatten().float().kthvalue(count - rank + 1).values.item()
