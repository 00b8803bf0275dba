"""The networks that are measured, and how they predict."""
import copy
from typing import Callable, Optional, Union

import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmseg.registry import MODELS
from mmseg.structures import SegDataSample
from torch import Tensor, nn

from abnn_mmseg.engine.loading import bayesian_model_cfg
from abnn_mmseg.members.files import load_base
from abnn_mmseg.models.posteriors import (
    BNLPosterior,
    DeterministicPosterior,
    DistilledPosterior,
    Posterior,
)
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.models.students import new_student
from abnn_mmseg.uncertainty import StreamingStatistics

SCOPES = ('all', 'decode_head', 'late')
# Options of the posterior, besides its scope, of the other ways.
VIEWS = dict(flips=('horizontal', ), scales=(0.75, ))
OPTIONS: dict[str, dict] = dict(
    element=dict(noise='element'),
    all_bf16=dict(precision='bfloat16'),
    views4=dict(networks=4, views=VIEWS),
    views4_bf16=dict(networks=4, views=VIEWS, precision='bfloat16'))
WAYS = SCOPES + (*OPTIONS, 'student', 'copies')


def build(config: Union[str, Config],
          checkpoint: Optional[str] = None,
          device: str = 'cpu') -> BayesianSegmentor:
    """The segmentor; random weights if there is no checkpoint."""
    init_default_scope('mmseg')
    torch.manual_seed(0)
    if isinstance(config, str):
        config = Config.fromfile(config)
    model = MODELS.build(bayesian_model_cfg(config)).to(device).eval()
    if checkpoint:
        load_base(model, checkpoint)
    else:
        # A classifier of all but zero weights would make all maps alike.
        nn.init.normal_(model.decode_head.conv_seg.weight, std=1.)
    return model


def attached(model: BayesianSegmentor, draws: int, **options) -> BNLPosterior:
    posterior = BNLPosterior(alpha=0.1, samples=draws, **options)
    posterior.attach(model)
    return posterior


def predict(model: BayesianSegmentor, images: Tensor, posterior: Posterior):
    """Samples of an answer of another posterior."""
    shape = images.shape[2:]
    metas = [dict(ori_shape=shape, img_shape=shape, pad_shape=shape)]
    samples = [SegDataSample(metainfo=meta) for meta in metas]
    model.conclude(model.answer(images, metas, posterior), samples)
    return samples


def way(name: str, model: BayesianSegmentor, images: Tensor,
        draws: int) -> Callable:
    """A prediction of ``draws`` networks in one of the :data:`WAYS`, or by
    the one 'deterministic' network."""
    if name == 'copies':
        return _copies(model, images, draws)
    if name == 'deterministic':
        posterior: Posterior = DeterministicPosterior()
        posterior.attach(model)
    elif name == 'student':
        return _student(model, images)
    else:
        options = OPTIONS.get(name) or dict(scope=name)
        posterior = attached(model, draws, **options)
    return lambda: predict(model, images, posterior)


def _student(model: BayesianSegmentor, images: Tensor) -> Callable:
    """Class map of the original network and maps of a student, untrained:
    what it says has no influence on the cost."""
    with torch.no_grad():
        posterior = DistilledPosterior()
        posterior.attach(model)
        posterior.student = new_student(model, images).eval()

    def run():
        before, model.prediction = model.prediction, 'base'
        try:
            return predict(model, images, posterior)
        finally:
            model.prediction = before

    return run


def _copies(model: BayesianSegmentor, images: Tensor, draws: int) -> Callable:
    """The obvious way: K whole networks, their maps collected."""
    networks = [copy.deepcopy(model) for _ in range(draws)]
    metas = [dict(ori_shape=images.shape[2:], img_shape=images.shape[2:])]

    def run():
        logits = torch.cat([n.encode_decode(images, metas) for n in networks])
        collected = StreamingStatistics()
        collected.update(logits)
        return collected

    return run
