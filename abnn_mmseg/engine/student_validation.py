"""Compare a student with its base and its teacher on validation images."""
import copy

import torch
import torch.nn.functional as F
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmseg.registry import DATASETS
from torch import Tensor

from abnn_mmseg.engine.distill_data import paste_into
from abnn_mmseg.engine.distillation import ask, divergence, share_kept
from abnn_mmseg.evaluation.curves import DetectionCurve
from abnn_mmseg.evaluation.fields import (
    IGNORE,
    IN_DISTRIBUTION,
    OOD,
    VOID_COLUMN,
)
from abnn_mmseg.evaluation.histograms import ScoreHistogram
from abnn_mmseg.models.posteriors import (
    DeterministicPosterior,
    DistilledPosterior,
    Posterior,
)
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.models.students import StudentHead
from abnn_mmseg.uncertainty import StreamingStatistics
from abnn_mmseg.uncertainty.scores import entropy
from abnn_mmseg.utils.choices import evenly_spaced
from abnn_mmseg.utils.configs import part_of
from abnn_mmseg.utils.console import progress


@torch.no_grad()
def validate(cfg: Config, model: BayesianSegmentor, teacher: Posterior,
             head: StudentHead, images: int) -> list[dict]:
    """Base, teacher and student on images with unknown things pasted in.

    Args:
        cfg (Config): With a ``val_dataloader``.
        model (BayesianSegmentor): The base, loaded.
        teacher (Posterior): Attached to it.
        head (StudentHead): Of the student.
        images (int): How many images, evenly spread.

    Returns:
        list[dict]: For each, its ``name``; ``divergence``, the KL divergence
        of its mean probability from the teacher's; ``AUROC`` and ``FPR95``,
        in percent, of finding what was pasted by entropy; and ``kept``, the
        share of the teacher's gain in divergence that it has.
    """
    dataset = pasted(cfg)
    chosen = evenly_spaced(len(dataset), images)
    posteriors = dict(base=_base(model), teacher=teacher,
                      student=_student(model, head))
    far: dict[str, float] = dict.fromkeys(posteriors, 0.)
    found: dict[str, ScoreHistogram] = {}
    for number in progress(chosen, 'Validation', len(chosen)):
        data = model.data_preprocessor(
            pseudo_collate([dataset[number]]), False)
        answers = {name: ask(
            model, posterior, data['inputs'], ('entropy', ))[0]
                   for name, posterior in posteriors.items()}
        labels = _labels(data['data_samples'][0], answers['base'])
        for name, statistics in answers.items():
            far[name] += divergence(
                answers['teacher'], statistics) / len(chosen)
            own = _histogram(statistics, labels)
            found[name] = found[name].merge(own) if name in found else own
    return [_row(name, far, found[name]) for name in posteriors]


def pasted(cfg: Config):
    """The validation images, each with its own unknown things."""
    dataset = copy.deepcopy(part_of(cfg, 'val_dataloader').dataset)
    paste_into(dataset, seed=0)
    for step in dataset.pipeline:
        if step['type'] == 'PackSegInputs':
            step['type'] = 'PackAnomalyInputs'
    return DATASETS.build(dataset)


def _base(model: BayesianSegmentor) -> Posterior:
    posterior = DeterministicPosterior()
    posterior.attach(model)
    return posterior


def _student(model: BayesianSegmentor, head: StudentHead) -> Posterior:
    posterior = DistilledPosterior()
    posterior.attach(model)
    posterior.head = head
    return posterior


def _labels(sample, statistics: StreamingStatistics) -> Tensor:
    labels = sample.gt_anomaly.data.to(statistics.probability.device).long()
    size = statistics.probability.shape[1:]
    if labels.shape[1:] != size:
        # Labels of images that a test pipeline resizes keep their size.
        labels = F.interpolate(labels[None].float(), size)[0].long()
    return labels[0].masked_fill(labels[0] == IGNORE, VOID_COLUMN)


def _histogram(statistics: StreamingStatistics,
               labels: Tensor) -> ScoreHistogram:
    return ScoreHistogram.from_scores(
        entropy(statistics), labels, 3).keep_labels(2)


def _row(name: str, far: dict[str, float],
         histogram: ScoreHistogram) -> dict:
    curve = DetectionCurve(histogram, (OOD, ), (IN_DISTRIBUTION, ))
    return dict(
        name=name,
        divergence=far[name],
        AUROC=100 * curve.auroc(),
        FPR95=100 * curve.fpr_at_tpr(0.95),
        kept=share_kept(far['base'], far[name], far['teacher']))
