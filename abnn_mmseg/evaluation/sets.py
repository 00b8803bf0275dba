"""Calibrate label sets and alarms, and test their guarantees."""
import math
from typing import Any, Optional

import numpy as np
from mmseg.registry import METRICS
from torch import Tensor

from abnn_mmseg.evaluation.fields import (
    IGNORE,
    IN_DISTRIBUTION,
    OOD,
    class_labels,
    path_of,
    pixel_kinds,
    score_map,
)
from abnn_mmseg.evaluation.risks import (
    check_images,
    check_level,
    conformal_quantile,
    controlled_threshold,
    covering_threshold,
    exact,
    exceeding_value,
    share_below,
    shares,
)
from abnn_mmseg.evaluation.running import RunningMetric, Totals
from abnn_mmseg.uncertainty.guarantees import (
    RISKS,
    SET_RISKS,
    Guarantee,
    class_probability,
)
from abnn_mmseg.utils.choices import one_of

# The images that each risk is calibrated on.
NEEDS = {
    'label-set': 'images with a labelled pixel',
    'coverage': 'images with a labelled pixel',
    'false-alarm': 'images with a known pixel',
    'miss': 'images with an unknown (OOD) pixel',
}


class RiskCalibration(RunningMetric):
    """Finds the threshold of a guarantee; see :mod:`.risks` for the maths.

    :meth:`evaluate` returns ``threshold``; ``measured``, the risk on these
    images; and ``images``, the number of images it is calibrated on. Memory
    is constant except for a few numbers per image.

    Args:
        risk (str): One of ``RISKS``.
        level (float): The risk to promise.
        score (str, optional): The score of an alarm.
        part (float, optional): Share of an image's pixels: those to cover for
            ``coverage``, those that a false alarm must exceed.
    """

    def __init__(self, risk: str, level: float, score: Optional[str] = None,
                 part: Optional[float] = None) -> None:
        super().__init__(prefix='calibrated')
        self.risk = one_of('risk', risk, RISKS)
        self.level = check_level(level)
        if risk not in SET_RISKS and score is None:
            raise ValueError(f'risk={risk!r} needs the score of the alarm, '
                             "such as 'entropy'.")
        self.score = score
        self.part = check_part(risk, part)

    def measure(self, sample: dict) -> tuple[dict, Totals]:
        """The shares of one image, or its one number."""
        values = self._values(sample)
        if not values.numel():
            return dict(used=False), {}
        if self.risk in ('label-set', 'miss'):
            return dict(used=True), dict(shares=shares(values))
        assert self.part is not None
        if self.risk == 'coverage':
            return dict(used=True,
                        number=-covering_threshold(values, self.part)), {}
        return dict(used=True, number=exceeding_value(values, self.part)), {}

    def _values(self, sample: dict) -> Tensor:
        if self.risk in SET_RISKS:
            return true_probability(sample)
        assert self.score is not None
        scores = score_map(sample, self.score)
        wanted = OOD if self.risk == 'miss' else IN_DISTRIBUTION
        return scores[pixel_kinds(sample, scores) == wanted]

    def summarize(self, results: list, totals: Totals) -> dict[str, float]:
        """The threshold; raises ValueError if there are too few images."""
        used = [row for row in results if row['used']]
        check_images(self.level, len(used), NEEDS[self.risk])
        found: dict[str, float] = dict(images=len(used))
        if 'shares' in totals:
            threshold = controlled_threshold(
                totals['shares'], len(used), self.level)
            measured = share_below(totals['shares'], len(used), threshold)
        else:
            numbers = [row['number'] for row in used]
            limit = conformal_quantile(numbers, self.level)
            measured = sum(n > limit for n in numbers) / len(numbers)
            # A score equal to the limit raises no alarm.
            threshold = -limit if self.risk == 'coverage' else float(
                np.nextafter(np.float32(limit), np.float32(np.inf)))
        return dict(found, threshold=threshold, measured=measured)


@METRICS.register_module()
class GuaranteeMetric(RunningMetric):
    """Measures label sets and alarms against their guarantees, in percent.

    They are predicted by a segmentor with stored guarantees, see ``abnn
    certify``. Keys are ``risk/<risk>/<name>``:

    - ``label-set``: ``coverage``, the mean over images of the share of
      labelled pixels whose set holds the true class;
    - ``coverage``: ``images_covered``, the share of images that have at least
      the promised part of their pixels covered;
    - both: ``set_size``, the mean number of classes, and ``empty``, the share
      of pixels whose set is empty;
    - ``false-alarm``: ``false_alarms``, the share of images whose alarm flags
      a known pixel, or more than the promised part of them;
    - ``miss``: ``missed``, the mean over images of the share of their unknown
      pixels that are not flagged.

    ``promised`` is added to each: the lower bound of a coverage, the upper
    bound of the others, on average.
    """

    default_prefix = 'risk'

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)

    def measure(self, sample: dict) -> tuple[dict, Totals]:
        """A few numbers for each guarantee."""
        guarantees = guarantees_of(sample)
        numbers: dict[str, Any] = dict(guarantees=[
            guarantee.to_dict() for guarantee in guarantees])
        for guarantee in guarantees:
            mask = sample['guaranteed'][guarantee.risk]
            numbers[guarantee.risk] = (
                _measure_sets(sample, mask, guarantee)
                if guarantee.has_sets else
                _measure_alarm(sample, mask[0], guarantee))
        return numbers, {}

    def summarize(self, results: list, totals: Totals) -> dict[str, float]:
        """Means over the images that count."""
        metrics: dict[str, float] = {}
        for content in results[0]['guarantees']:
            guarantee = Guarantee.from_dict(content)
            risk, level = guarantee.risk, guarantee.level
            rows = [r[risk] for r in results if r[risk]]
            if not rows:
                self.warn(f'none of the {len(results)} images is one of the '
                          f'{NEEDS[risk]}: {risk} is not measured.')
                continue
            for name in rows[0]:
                mean = math.fsum(row[name] for row in rows) / len(rows)
                metrics[f'{risk}/{name}'] = (
                    mean if name == 'set_size' else 100 * mean)
            metrics[f'{risk}/promised'] = 100 * (
                1 - level if guarantee.has_sets else level)
        return metrics


def guarantees_of(sample: dict) -> list[Guarantee]:
    """The guarantees of a prediction."""
    known = sample.get('guarantees')
    if not known:
        raise ValueError(
            f'the prediction for {path_of(sample)} has no label set and no '
            'alarm, since no guarantee is stored for this model and these '
            'settings; make one with `abnn certify CONFIG BASE MEMBERS '
            '--risk label-set --level 0.05`, or remove GuaranteeMetric.')
    return [Guarantee.from_dict(content) for content in known]


def check_part(risk: str, part: Optional[float]) -> Optional[float]:
    """The share of an image that a guarantee is about, or its default."""
    if risk == 'coverage':
        part = 0.9 if part is None else part
        if not 0 < part <= 1:
            raise ValueError(f'coverage of {part} of the pixels is not in '
                             '(0, 1]; write 0.9 for 90 %.')
        return part
    if risk == 'false-alarm':
        part = 0. if part is None else part
        if not 0 <= part < 1:
            raise ValueError(f'a flagged share of {part} is not in [0, 1); '
                             'write 0.01 for 1 %, or 0 for a single pixel.')
        return part
    if part is not None:
        raise ValueError(f'risk={risk!r} is about all pixels and takes no '
                         'part of them; leave it out.')
    return None


def true_probability(sample: dict) -> Tensor:
    """Probability of the true class where there is one, ``[N]``."""
    labels = class_labels(sample)
    logits = sample['seg_logits']['data']
    known = labels != IGNORE
    probability = class_probability(logits).flatten(1)
    return probability[:, known].gather(0, labels[known][None])[0]


def _measure_sets(sample: dict, sets: Tensor,
                  guarantee: Guarantee) -> Optional[dict[str, float]]:
    labels = class_labels(sample)
    known = labels != IGNORE
    count = int(known.sum())
    if not count:
        return None
    inside = sets.flatten(1)[:, known]
    size = inside.sum(0)
    covered = int(inside.gather(0, labels[known][None]).sum())
    numbers = dict(coverage=covered / count)
    if guarantee.part is not None:
        enough = covered >= math.ceil(exact(guarantee.part) * count)
        numbers = dict(images_covered=float(enough))
    return dict(numbers, set_size=size.double().mean().item(),
                empty=(size == 0).double().mean().item())


def _measure_alarm(sample: dict, alarm: Tensor,
                   guarantee: Guarantee) -> Optional[dict[str, float]]:
    kinds = pixel_kinds(sample, alarm)
    if guarantee.risk == 'miss':
        flagged = alarm[kinds == OOD]
        if not flagged.numel():
            return None
        return dict(missed=1 - flagged.double().mean().item())
    flagged = alarm[kinds == IN_DISTRIBUTION]
    if not flagged.numel():
        return None
    allowed = math.floor(exact(guarantee.part or 0) * flagged.numel())
    return dict(false_alarms=float(int(flagged.sum()) > allowed))
