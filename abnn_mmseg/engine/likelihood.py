"""Ask labelled images which draws of a posterior are good networks.

Noise is drawn blindly, so some draws are networks that no training would have
left like that, and they spoil the mean. With `candidates` a posterior keeps
only the draws eps under which labelled images D are most likely,

    -log p(D | eps) = -mean_i log p(y_i | x_i, eps),

which is sampling from the prior N(0, 1) of eps and keeping the best, a step
towards its posterior p(eps | D). No label of an anomaly is needed.
"""
from typing import Optional

import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmseg.registry import DATASETS
from torch import Tensor
from torch.nn.functional import cross_entropy

from ..evaluation.fields import IGNORE, class_labels, path_of
from ..models.segmentor import BayesianSegmentor
from ..utils.console import progress
from .hooks.cost_hook import cost_clock
from .temperature import spread


@torch.no_grad()
def weigh_draws(cfg: Config, model: BayesianSegmentor,
                images: Optional[int] = None) -> dict:
    """Negative log-likelihoods of all candidates on ``val_dataloader``.

    Args:
        cfg (Config): For its validation dataset.
        model (BayesianSegmentor): Of :func:`build_segmentor`, with members
            and a posterior that has ``candidates``.
        images (int, optional): Use so many, evenly spread. Default: all.

    Returns:
        dict: ``nll`` by member and draw, in nats a pixel, and the
        ``seconds`` it took, of one core where there is no GPU.
    """
    posterior = model.posterior
    candidates = getattr(posterior, 'candidates', None)
    if candidates is None:
        raise ValueError(
            'the posterior of the config keeps all its draws; write '
            "candidates=16, say, in posterior=dict(type='BNLPosterior', "
            '...) to choose among so many of each member.')
    if not posterior.is_noisy:
        raise ValueError('alpha is 0 in all layers of the scope, so all '
                         'draws are one network; write another alpha.')
    clock = cost_clock()
    start = clock()
    dataset = DATASETS.build(cfg.val_dataloader.dataset)
    chosen = spread(len(dataset), images)
    kept, resolution = posterior.samples, model.resolution
    # All of them, for a while, at the size of the labels.
    posterior.samples, posterior.candidates = candidates, None
    model.resolution = 'full'
    try:
        nll = torch.stack([
            _nll_of_networks(model, dataset[i])
            for i in progress(chosen, 'Draws', len(chosen))
        ]).mean(0)
    finally:
        posterior.samples, posterior.candidates = kept, candidates
        model.resolution = resolution
    # Views come one after the other, each with all networks.
    nll = nll.view(len(posterior.views), -1, candidates).mean(0)
    return dict(nll=nll.tolist(),
                seconds=round(clock() - start, 1))


def _nll_of_networks(model: BayesianSegmentor, item: dict) -> Tensor:
    """Of each network ``[K]``, over the labelled pixels of an image."""
    data = model.data_preprocessor(pseudo_collate([item]), False)
    [sample] = data['data_samples']
    return torch.cat([
        _nll(logits_of(0).float(), sample.to_dict())
        for logits_of in model.each_chunk(
            model.posterior.networks, data['inputs'], [sample.metainfo])
    ]).cpu()


def _nll(logits: Tensor, fields: dict) -> Tensor:
    """Of n networks with logits ``[n, C, H, W]``."""
    labels = class_labels({**fields, 'seg_logits': dict(data=logits[0])})
    known = labels != IGNORE
    if not known.any():
        raise ValueError(f'{path_of(fields)} has no labelled pixel, so no '
                         'draw can be judged by it; check the labels of the '
                         'validation set.')
    if logits.shape[1] == 1:
        # A sigmoid head: the background's logit is zero.
        logits = torch.cat([torch.zeros_like(logits), logits], 1)
    return cross_entropy(
        logits.flatten(2)[..., known], labels[known].expand(len(logits), -1),
        reduction='none').mean(1)
