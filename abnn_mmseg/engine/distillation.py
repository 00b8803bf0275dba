"""The model that trains while a posterior is distilled into a student."""
import math
from collections.abc import Sequence
from typing import Optional, Union

import torch
import torch.nn.functional as F
from mmengine.model import BaseModel
from torch import Tensor

from abnn_mmseg.models.posteriors import Posterior
from abnn_mmseg.models.posteriors.chosen import ChosenNetworks
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.models.students import StudentHead, as_classes, watch
from abnn_mmseg.uncertainty import SCORES, StreamingStatistics

# A logit is about so many times as large as the nats of the other losses.
LOGIT_SCALE = 10.


class Distillation(BaseModel):
    """A student that learns what random networks of a teacher say.

    Each image is shown to a few random networks with fresh noise.
    Their mean is an unbiased estimate of the posterior's, and every loss below
    has its minimum at the mean of its target, so the student learns the
    posterior's mean although no step computes it:

        probability       cross entropy to the mean probability
        expected_entropy  m - y log m,  y the mean entropy, m the student's
        second_moment     the same of its complement, 1 - second moment
        logits            ((y - m) / 10)^2, mean over the classes

    all means over pixels. No labels are used. The segmentor is no part of
    this module: it does not train, and no checkpoint holds it.

    Args:
        segmentor (BayesianSegmentor): The base, loaded.
        teacher (Posterior): Attached to it, and loaded.
        student (StudentHead): What trains.
        networks (int): How many of the teacher's see an image.
            Defaults to 1.
    """

    def __init__(self, segmentor: BayesianSegmentor, teacher: Posterior,
                 student: StudentHead, networks: int = 1) -> None:
        super().__init__(segmentor.data_preprocessor)
        self.student = student
        self.networks = networks
        # Not registered as a child.
        self._frozen = (segmentor.eval(), teacher)

    def forward(self,
                inputs: Tensor,
                data_samples: Optional[list] = None,
                mode: str = 'loss') -> Union[dict, list]:
        """Losses of a batch; nothing else is asked of this model."""
        if mode != 'loss':
            raise NotImplementedError(
                f'a distillation has no mode={mode!r}; predict with the '
                'segmentor and a DistilledPosterior.')
        segmentor, teacher = self._frozen
        segmentor.to(inputs.device)
        metas = whole_metas(inputs)
        with torch.no_grad():
            # Networks of its own for each image: more of them in a batch.
            answer = [
                ask(segmentor, self._choice(teacher), image[None])[0]
                for image in inputs
            ]
            features, logits = watch(
                segmentor, lambda x: segmentor._logits(metas, x), inputs)
            logits = as_classes(segmentor._to_logits(logits).float())
        outputs = self.student([f.detach() for f in features], logits)
        losses: dict[str, list[Tensor]] = {}
        for one, statistics in zip(outputs, answer):
            found = distillation_losses(self.student.means(one), statistics)
            for name, loss in found.items():
                losses.setdefault(f'loss_{name}', []).append(loss)
        return {name: torch.stack(values) for name, values in losses.items()}

    def _choice(self, teacher: Posterior) -> ChosenNetworks:
        """Random networks of a teacher whose noise is drawn anew."""
        order = torch.randperm(len(teacher))[:self.networks].tolist()
        seed = int(torch.randint(2**31, ()))
        return ChosenNetworks(
            teacher, order, None if teacher.seed is None else seed)


def ask(segmentor: BayesianSegmentor, posterior: Posterior, inputs: Tensor,
        scores: Sequence[str] = tuple(SCORES)) -> list[StreamingStatistics]:
    """A posterior's statistics of preprocessed images, for some scores."""
    before, segmentor.scores = segmentor.scores, tuple(scores)
    try:
        return segmentor.answer(
            inputs, whole_metas(inputs), posterior, ()).draws
    finally:
        segmentor.scores = before


def whole_metas(inputs: Tensor) -> list[dict]:
    """Of images that nobody resized: answers have the size of the inputs."""
    size = tuple(inputs.shape[2:])
    return [dict(ori_shape=size, img_shape=size, pad_shape=size)
            for _ in inputs]


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

    The mean over the pixels.
    """
    p, q = one.probability, other.probability
    tiny = torch.finfo(torch.float32).tiny
    gain = torch.special.xlogy(p, p) - p * q.clamp_min(tiny).log()
    return float(gain.sum(0).mean())


def share_kept(base: float, student: float, teacher: float) -> float:
    """How much of the teacher's way from the base a student goes."""
    gain = teacher - base
    return math.nan if gain == 0 else (student - base) / gain


