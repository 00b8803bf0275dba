"""Label sets and alarms that come with a guarantee.

A guarantee is a threshold that was calibrated on labelled images, see
:mod:`abnn_mmseg.evaluation.risks`, with the risk and settings that it holds
for. With p_k the predicted probability of class k and s a score:

===============  =========================================================
``label-set``    ``{k : p_k >= threshold}``; ``threshold = 1 - lambda``
``coverage``     the same sets, for another risk
``false-alarm``  ``s >= threshold``
``miss``         the same alarm, for another risk
===============  =========================================================
"""
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional

from torch import Tensor

SET_RISKS = ('label-set', 'coverage')
ALARM_RISKS = ('false-alarm', 'miss')
RISKS = (*SET_RISKS, *ALARM_RISKS)


@dataclass(frozen=True)
class Guarantee:
    """A calibrated threshold and the promise that it keeps.

    Args:
        risk: One of ``RISKS``.
        level: The risk is promised not to exceed this, in (0, 1).
        threshold: The lowest probability of a class in the set, or the lowest
            score that raises an alarm.
        images: Number of calibration images.
        data: Name of the calibration images.
        settings: The settings that the prediction depends on: the posterior
            and, for label sets, the source of the probability.
        weights: Digest of the weights.
        score: Score of an alarm.
        part: Share of an image's pixels: those that must be covered for
            ``coverage``, those that may be flagged for ``false-alarm``.
        measured: The risk on the calibration images.
    """
    risk: str
    level: float
    threshold: float
    images: int
    data: str
    settings: str
    weights: str
    score: Optional[str] = None
    part: Optional[float] = None
    measured: Optional[float] = None

    @property
    def has_sets(self) -> bool:
        """Whether it gives label sets; otherwise it gives an alarm."""
        return self.risk in SET_RISKS

    def apply(self, probability: Tensor, maps: dict[str, Tensor]) -> Tensor:
        """Label sets, bool ``[C, H, W]``, or an alarm, bool ``[1, H, W]``.

        Args:
            probability (Tensor): Of each class, ``[C, H, W]``.
            maps (dict): Scores ``[H, W]`` by name.
        """
        if self.has_sets:
            return probability >= self.threshold
        assert self.score is not None
        return maps[self.score][None] >= self.threshold

    def sentence(self) -> str:
        """The promise in words."""
        share = f'{100 * (1 - self.level):g} %'
        level = f'{100 * self.level:g} %'
        part = f'{100 * (self.part or 0):g} %'
        promise = {
            'label-set': f'the set holds the true class of {share} of an '
            'image\'s pixels, on average over images',
            'coverage': f'in {share} of the images, the set holds the true '
            f'class of at least {part} of the pixels',
            'false-alarm': f'in at most {level} of the images, the alarm '
            + (f'flags more than {part} of the known pixels' if self.part
               else 'flags a known pixel'),
            'miss': f'the alarm misses at most {level} of the unknown pixels '
            'of an image, on average over images that have some',
        }[self.risk]
        return f'{promise}; for images like the {self.images} of {self.data}'

    def to_dict(self) -> dict[str, Any]:
        """The fields as builtins, and ``lambda`` for label sets."""
        content = asdict(self)
        if self.has_sets:
            content['lambda'] = 1 - self.threshold
        return content

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> 'Guarantee':
        """The inverse of :meth:`to_dict`."""
        known = cls.__dataclass_fields__
        return cls(**{k: v for k, v in content.items() if k in known})


def class_probability(logits: Tensor) -> Tensor:
    """Probability of each class, ``[C, H, W]``; float32."""
    return logits.float().softmax(0)


def first_of(risks: Sequence[str], known: Iterable[str]) -> Optional[str]:
    """The first of some risks that is known; None if none is."""
    return next((risk for risk in risks if risk in known), None)
