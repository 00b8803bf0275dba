"""Fit the temperature of a posterior on validation images."""
from typing import Optional

import torch
from mmengine.config import Config
from torch import Tensor

from abnn_mmseg.evaluation.fields import IGNORE, class_labels, class_logits
from abnn_mmseg.members.images import Batch, Images
from abnn_mmseg.models.answering import PREDICTIONS
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.uncertainty.temperature import (
    fit_temperature,
    negative_log_likelihood,
)
from abnn_mmseg.utils.configs import part_of
from abnn_mmseg.utils.console import progress

# Number of pixels that T is fitted to; enough for two digits.
PIXELS = 2**20


def fit_on(cfg: Config, model: BayesianSegmentor,
           images: Optional[int] = None) -> list[dict]:
    """Temperatures of a segmentor on ``val_dataloader`` of its config.

    Args:
        cfg (Config): With a ``val_dataloader``.
        model (BayesianSegmentor): See :func:`build_segmentor`.
        images (int, optional): How many images to use, evenly spread.
            Defaults to all.

    Returns:
        list[dict]: ``prediction``, ``temperature``, and the NLL on these
        pixels ``before`` and ``after``, for each prediction.
    """
    data = Images(model, part_of(cfg, 'val_dataloader').dataset, images)
    found: dict[str, list[tuple[Tensor, Tensor]]] = {
        name: [] for name in PREDICTIONS}
    for batch in progress(data, 'Temperature', len(data)):
        stride = max(1, len(data) * batch.inputs[0, 0].numel() // PIXELS)
        pixels = _log_probabilities(model, batch)
        for name, (log_probability, labels) in pixels.items():
            found[name].append((log_probability[::stride], labels[::stride]))
    rows = []
    for name, parts in found.items():
        log_probability, labels = (torch.cat(p) for p in zip(*parts))
        value = fit_temperature(log_probability, labels)
        rows.append(dict(
            prediction=name, temperature=value,
            before=negative_log_likelihood(log_probability, labels),
            after=negative_log_likelihood(log_probability, labels, value)))
    return rows


@torch.no_grad()
def _log_probabilities(model: BayesianSegmentor, batch: Batch
                       ) -> dict[str, tuple[Tensor, Tensor]]:
    """Labelled pixels ``[N, C]`` and their labels, for each prediction."""
    answer = model.answer(
        batch.inputs, batch.metas, predictions=PREDICTIONS)
    found = {}
    for name in PREDICTIONS:
        model.conclude(answer, batch.samples, name, temperature=1.)
        found[name] = labelled_pixels(batch.samples[0])
    return found


def labelled_pixels(sample) -> tuple[Tensor, Tensor]:
    """Log-probabilities ``[N, C]`` and classes of the labelled pixels."""
    fields = sample.to_dict()
    logits = class_logits(fields)
    labels = class_labels(fields)
    known = labels != IGNORE
    return logits[:, known].log_softmax(0).t(), labels[known]
