"""The model that trains while a posterior is distilled into a student."""
import copy
import math
from collections.abc import Sequence
from functools import partial
from typing import Optional, Union

import torch
import torch.nn.functional as F
from mmengine.model import BaseModel
from torch import Tensor

from abnn_mmseg.models.posteriors import Posterior
from abnn_mmseg.models.segmentor import BayesianSegmentor, whole_metas
from abnn_mmseg.models.students import Student
from abnn_mmseg.uncertainty import SCORES, StreamingStatistics
from abnn_mmseg.uncertainty.statistics import as_classes

# The loss of the logits is divided by the square of this, to be of the same
# size as the other losses.
LOGIT_SCALE = 10.
# The weight of the base's class map in the loss of a student with norms.
BASE_WEIGHT = 0.3


class Distillation(BaseModel):
    """A student that learns from random networks of a teacher.

    In each step, a few random networks with fresh noise predict each image.
    The mean over them is an unbiased estimate of the posterior's mean. Every
    loss below is smallest at the expectation of its target, so the student
    learns the posterior's mean although no step computes it:

        probability       cross entropy to the mean probability
        expected_entropy  m - y log m,  y the mean entropy, m the student's
        second_moment     the same for 1 - second moment
        logits            ((y - m) / 10)^2, mean over the classes

    A student of the design 'norms' has no loss of its logits, which are those
    of its probability. Instead, the cross entropy of its probability to the
    class map of the base keeps the accuracy of its own class map.

    All are means over pixels. No labels are used. The segmentor is not a
    child of this module: it does not train, and checkpoints do not hold it.

    Args:
        segmentor (BayesianSegmentor): The base, with its weights.
        teacher (Posterior): Attached to the segmentor, with its members.
        student (Student): The student to train.
        networks (int): Networks of the teacher for each image and step.
            Defaults to 1.
    """

    def __init__(self, segmentor: BayesianSegmentor, teacher: Posterior,
                 student: Student, networks: int = 1) -> None:
        super().__init__(segmentor.data_preprocessor)
        self.student = student
        self.networks = networks
        # Not registered as a child.
        self._frozen = (segmentor.eval(), teacher)

    def forward(self,
                inputs: Tensor,
                data_samples: Optional[list] = None,
                mode: str = 'loss') -> Union[dict, list]:
        """Losses of a batch; there is no other mode."""
        if mode != 'loss':
            raise NotImplementedError(
                f'a distillation has no mode={mode!r}; predict with the '
                'segmentor and a DistilledPosterior.')
        segmentor, teacher = self._frozen
        segmentor.to(inputs.device)
        metas = whole_metas(inputs)
        with torch.no_grad():
            # Each image has networks of its own, so a batch has more of them.
            answer = [
                self._ask_some(segmentor, teacher, image[None])
                for image in inputs
            ]
        has_norms = self.student.network is not None
        # Gradients reach the student's own norms through the pass.
        with torch.set_grad_enabled(has_norms):
            features, logits = self.student.watch(
                segmentor, partial(segmentor.head_outputs, metas), inputs)
            logits = as_classes(segmentor.to_logits(logits).float())
        outputs = self.student([f.detach() for f in features], logits)
        losses: dict[str, list[Tensor]] = {}
        for one, statistics in zip(outputs, answer):
            means = self.student.means(one)
            if has_norms:
                del means['logits']
            found = distillation_losses(means, statistics)
            for name, loss in found.items():
                losses.setdefault(f'loss_{name}', []).append(loss)
        totals = {name: torch.stack(all_) for name, all_ in losses.items()}
        if has_norms:
            totals['loss_base'] = BASE_WEIGHT * F.cross_entropy(
                logits, _class_map(segmentor, inputs, metas))
        return totals

    def _ask_some(self, segmentor: BayesianSegmentor, teacher: Posterior,
                  image: Tensor) -> StreamingStatistics:
        """The answer of random networks, with new noise, for an image."""
        numbers = torch.randperm(len(teacher))[:self.networks].tolist()
        seed = int(torch.randint(2**31, ()))
        if teacher.seed is not None:
            teacher = copy.copy(teacher)
            teacher.seed = seed
        return ask(segmentor, teacher, image, numbers=numbers)[0]


@torch.no_grad()
def _class_map(segmentor: BayesianSegmentor, inputs: Tensor,
               metas: list[dict]) -> Tensor:
    """The classes that the original network predicts."""
    logits = segmentor.to_logits(segmentor.head_outputs(metas, inputs))
    return as_classes(logits).argmax(1)


def ask(segmentor: BayesianSegmentor, posterior: Posterior, inputs: Tensor,
        scores: Sequence[str] = tuple(SCORES),
        numbers: Optional[Sequence[int]] = None) -> list[StreamingStatistics]:
    """A posterior's statistics of preprocessed images, for some scores."""
    before, segmentor.scores = segmentor.scores, tuple(scores)
    try:
        return segmentor.answer(
            inputs, whole_metas(inputs), posterior, (), numbers).statistics
    finally:
        segmentor.scores = before


def distillation_losses(means: dict[str, Tensor],
                        target: StreamingStatistics) -> dict[str, Tensor]:
    """The losses of one image, see :class:`Distillation`."""
    losses = {}
    for name, mean in means.items():
        wanted = getattr(target, name)
        if name == 'probability':
            log = mean.clamp_min(torch.finfo(mean.dtype).tiny).log()
            losses[name] = -(wanted * log).sum(0).mean()
        elif name == 'logits':
            losses[name] = F.mse_loss(mean, wanted) / LOGIT_SCALE**2
        else:
            if name == 'second_moment':
                mean, wanted = 1 - mean, 1 - wanted
            mean = mean.clamp_min(1e-6)
            losses[name] = (mean - wanted * mean.log()).mean()
    return losses


def divergence(one: StreamingStatistics,
               other: StreamingStatistics) -> float:
    """KL divergence of the second mean probability from the first, in nats.

    It is the mean over all pixels.
    """
    p, q = one.probability, other.probability
    tiny = torch.finfo(torch.float32).tiny
    gain = torch.special.xlogy(p, p) - p * q.clamp_min(tiny).log()
    return float(gain.sum(0).mean())


def share_kept(base: float, student: float, teacher: float) -> float:
    """The student's share of the teacher's gain over the base."""
    gain = teacher - base
    return math.nan if gain == 0 else (student - base) / gain


