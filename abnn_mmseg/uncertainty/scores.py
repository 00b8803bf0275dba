"""Per-pixel scores from streaming statistics; higher is more anomalous.

With z_k the logits of network k, p_k their softmax, and z and p the means of
both over the K networks:

=====================  ==================================================
``msp``                ``1 - max_c p_c``
``entropy``            ``H(p)``, the total uncertainty
``expected_entropy``   ``mean_k H(p_k)``, the aleatoric part
``mutual_information`` ``H(p) - mean_k H(p_k)``, the epistemic part
``variance``           ``sum_c Var_k p_kc``
``max_logit``          ``-max_c z_c``
``energy``             ``-logsumexp_c z_c``
=====================  ==================================================

The last two are computed from the mean logits. Where networks disagree about
the class, no mean logit is large, so these scores also rise with disagreement;
a mean over the energies of the networks would not.
"""
import math
from collections.abc import Iterable
from typing import Optional

import torch
from torch import Tensor

from abnn_mmseg.uncertainty.statistics import StreamingStatistics
from abnn_mmseg.utils.choices import all_of


def msp(statistics: StreamingStatistics) -> Tensor:
    """``1 - max_c p_c`` of the mean probability."""
    return 1 - statistics.probability.amax(0)


def entropy(statistics: StreamingStatistics) -> Tensor:
    """Entropy of the mean probability: the total uncertainty."""
    return torch.special.entr(statistics.probability).sum(0)


def expected_entropy(statistics: StreamingStatistics) -> Tensor:
    """Mean entropy of the networks: the aleatoric part."""
    return statistics.expected_entropy


def mutual_information(statistics: StreamingStatistics) -> Tensor:
    """Entropy minus expected entropy: the epistemic part."""
    difference = entropy(statistics) - statistics.expected_entropy
    return _none_if_single(statistics, difference.clamp_min(0))


def variance(statistics: StreamingStatistics) -> Tensor:
    """Variance of the networks' probabilities, summed over classes."""
    squared_mean = statistics.probability.square().sum(0)
    difference = statistics.second_moment - squared_mean
    return _none_if_single(statistics, difference.clamp_min(0))


def _none_if_single(statistics: StreamingStatistics, map_: Tensor) -> Tensor:
    # For a single network these values are only rounding errors.
    return torch.zeros_like(map_) if statistics.count == 1 else map_


def max_logit(statistics: StreamingStatistics) -> Tensor:
    """Largest mean logit, with a minus sign."""
    return -statistics.logits.amax(0)


def energy(statistics: StreamingStatistics) -> Tensor:
    """``-logsumexp_c`` of the mean logits."""
    return -statistics.logits.logsumexp(0)


SCORES = dict(
    msp=msp,
    entropy=entropy,
    expected_entropy=expected_entropy,
    mutual_information=mutual_information,
    variance=variance,
    max_logit=max_logit,
    energy=energy)
# The means that each score is a function of.
NEEDS: dict[str, tuple[str, ...]] = dict(
    msp=('probability', ),
    entropy=('probability', ),
    expected_entropy=('expected_entropy', ),
    mutual_information=('probability', 'expected_entropy'),
    variance=('probability', 'second_moment'),
    max_logit=('logits', ),
    energy=('logits', ))
LOGIT_SCORES = tuple(name for name in NEEDS if 'logits' in NEEDS[name])
# Scores that usually stay far below their highest possible value.
SMALL_SCORES = ('mutual_information', 'variance')
DEFAULT_SCORES = ('msp', 'entropy', 'expected_entropy', 'mutual_information',
                  'variance')


def check_scores(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names as a tuple; raise ValueError for an unknown one."""
    return all_of('score', names, SCORES)


def map_name(model: str, score: str) -> str:
    """Name the map of one of several models, such as ``'base: entropy'``."""
    return f'{model}: {score}'


def score_of(name: str) -> str:
    """Return the score in the name of a map: ``'entropy'`` in the above."""
    return name.rsplit(':', 1)[-1].strip()


def statistics_for(names: Iterable[str]) -> StreamingStatistics:
    """Empty statistics that keep what these scores need."""
    return StreamingStatistics(not set(names).isdisjoint(LOGIT_SCORES))


def compute_scores(statistics: StreamingStatistics,
                   names: Iterable[str]) -> dict[str, Tensor]:
    """The named maps, ``[H, W]`` each."""
    return {name: SCORES[name](statistics) for name in names}


def score_range(name: str,
                num_classes: int) -> Optional[tuple[float, float]]:
    """The values a score can take, None if it is unbounded."""
    upper = dict(
        msp=1 - 1 / num_classes,
        entropy=math.log(num_classes),
        expected_entropy=math.log(num_classes),
        mutual_information=math.log(num_classes),
        variance=1 - 1 / num_classes)
    return (0., upper[name]) if name in upper else None
