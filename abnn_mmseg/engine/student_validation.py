"""Compare a student with its base and its teacher on validation images."""
import copy

import torch
import torch.nn.functional as F
from mmengine.config import Config, ConfigDict
from torch import Tensor

from abnn_mmseg.engine.distill_data import paste_into
from abnn_mmseg.engine.distillation import ask, divergence, share_kept
from abnn_mmseg.evaluation.curves import DetectionCurve
from abnn_mmseg.evaluation.fields import (
    IGNORE,
    IN_DISTRIBUTION,
    OOD,
    VOID_COLUMN,
    anomaly_histogram,
)
from abnn_mmseg.evaluation.histograms import ScoreHistogram
from abnn_mmseg.members.images import Images
from abnn_mmseg.models.posteriors import (
    DeterministicPosterior,
    DistilledPosterior,
    Posterior,
)
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.models.students import Student
from abnn_mmseg.uncertainty import StreamingStatistics
from abnn_mmseg.uncertainty.scores import entropy
from abnn_mmseg.utils.configs import part_of
from abnn_mmseg.utils.console import progress


@torch.no_grad()
def validate(cfg: Config, model: BayesianSegmentor, teacher: Posterior,
             student: Student, images: int) -> list[dict]:
    """Base, teacher and student on images with unknown things pasted in.

    Args:
        cfg (Config): With a ``val_dataloader``.
        model (BayesianSegmentor): The base, with its weights.
        teacher (Posterior): Attached to the model.
        student (Student): What is compared with both.
        images (int): Number of images, evenly spread.

    Returns:
        list[dict]: For each of the three, its ``name``; ``divergence``, the
        KL divergence of its mean probability from the teacher's; ``AUROC``
        and ``FPR95``, in percent, of its entropy for the pasted things; and
        ``kept``, its share of the teacher's gain in divergence.
    """
    data = Images(model, pasted(cfg), images)
    base, answering = DeterministicPosterior(), DistilledPosterior()
    base.attach(model)
    answering.attach(model)
    answering.student = student
    posteriors = dict(base=base, teacher=teacher, student=answering)
    far: dict[str, float] = dict.fromkeys(posteriors, 0.)
    found: dict[str, ScoreHistogram] = {}
    for batch in progress(data, 'Validation', len(data)):
        answers = {
            name: ask(model, posterior, batch.inputs, ('entropy', ))[0]
            for name, posterior in posteriors.items()}
        labels = _labels(batch.samples[0], answers['base'])
        for name, statistics in answers.items():
            far[name] += divergence(
                answers['teacher'], statistics) / len(data)
            own = anomaly_histogram(entropy(statistics), labels)
            found[name] = found[name].merge(own) if name in found else own
    return [_row(name, far, found[name]) for name in posteriors]


def pasted(cfg: Config) -> ConfigDict:
    """The validation images, each with its own unknown things."""
    dataset = copy.deepcopy(part_of(cfg, 'val_dataloader').dataset)
    paste_into(dataset, seed=0)
    for step in dataset.pipeline:
        if step['type'] == 'PackSegInputs':
            step['type'] = 'PackAnomalyInputs'
    return dataset


def _labels(sample, statistics: StreamingStatistics) -> Tensor:
    labels = sample.gt_anomaly.data.to(statistics.probability.device).long()
    size = statistics.probability.shape[1:]
    if labels.shape[1:] != size:
        # Labels of images that a test pipeline resizes keep their size.
        labels = F.interpolate(labels[None].float(), size)[0].long()
    return labels[0].masked_fill(labels[0] == IGNORE, VOID_COLUMN)


def _row(name: str, far: dict[str, float],
         histogram: ScoreHistogram) -> dict:
    curve = DetectionCurve(histogram, (OOD, ), (IN_DISTRIBUTION, ))
    return dict(
        name=name,
        divergence=far[name],
        AUROC=100 * curve.auroc(),
        FPR95=100 * curve.fpr_at_tpr(0.95),
        kept=share_kept(far['base'], far[name], far['teacher']))
