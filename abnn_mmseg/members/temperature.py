"""Fit the temperature of a posterior on validation images."""
from typing import Optional

import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmseg.registry import DATASETS
from torch import Tensor

from abnn_mmseg.evaluation.fields import IGNORE, class_labels, class_logits
from abnn_mmseg.models.segmentor import PREDICTIONS, BayesianSegmentor
from abnn_mmseg.uncertainty.temperature import (
    fit_temperature,
    negative_log_likelihood,
)
from abnn_mmseg.utils.choices import evenly_spaced
from abnn_mmseg.utils.configs import part_of
from abnn_mmseg.utils.console import progress

# Pixels that T is fitted to: enough for two digits.
PIXELS = 2**20


def fit_on(cfg: Config, model: BayesianSegmentor,
           images: Optional[int] = None) -> list[dict]:
    """Temperatures of a segmentor on ``val_dataloader`` of its config.

    Args:
        cfg (Config): For its validation dataset.
        model (BayesianSegmentor): Of :func:`build_segmentor`.
        images (int, optional): Use so many, evenly spread. Defaults to all.

    Returns:
        list[dict]: For each ``prediction``: it, ``temperature``, and the NLL
        on these pixels ``before`` and ``after``.
    """
    dataset = DATASETS.build(part_of(cfg, 'val_dataloader').dataset)
    chosen = evenly_spaced(len(dataset), images)
    stride = max(1, len(chosen) * _pixels(dataset) // PIXELS)
    found: dict[str, list[tuple[Tensor, Tensor]]] = {
        name: [] for name in PREDICTIONS}
    for i in progress(chosen, 'Temperature', len(chosen)):
        pixels = _log_probabilities(model, dataset[i])
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


def _pixels(dataset) -> int:
    return dataset[0]['inputs'][0].numel()


@torch.no_grad()
def _log_probabilities(model: BayesianSegmentor, item: dict
                       ) -> dict[str, tuple[Tensor, Tensor]]:
    """Labelled pixels ``[N, C]`` and their labels, for each prediction."""
    data = model.data_preprocessor(pseudo_collate([item]), False)
    inputs, samples = data['inputs'], data['data_samples']
    metas = [sample.metainfo for sample in samples]
    answer = model.answer(inputs, metas, predictions=PREDICTIONS)
    found = {}
    for name in PREDICTIONS:
        model.conclude(answer, samples, name, temperature=1.)
        found[name] = labelled_pixels(samples[0])
    return found


def labelled_pixels(sample) -> tuple[Tensor, Tensor]:
    """Log-probabilities ``[N, C]`` and classes of the pixels that have one."""
    fields = sample.to_dict()
    logits = class_logits(fields)
    labels = class_labels(fields)
    known = labels != IGNORE
    return logits[:, known].log_softmax(0).t(), labels[known]
