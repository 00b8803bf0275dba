"""Build a segmentor from a config and its checkpoints."""
import copy
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Optional, Union

from mmengine.config import Config, ConfigDict
from mmengine.device import get_device
from mmengine.registry import init_default_scope
from mmseg.registry import MODELS

from abnn_mmseg.members.files import (
    check_distinct,
    is_member_file,
    load_base,
    load_members,
)
from abnn_mmseg.models.posteriors import Posterior
from abnn_mmseg.models.posteriors.options import check_options
from abnn_mmseg.models.segmentor import BayesianSegmentor

Paths = Union[str, Path, Sequence[Union[str, Path]]]
BAYESIAN = {
    kind: f'Bayesian{kind}'
    for kind in ('EncoderDecoder', 'CascadeEncoderDecoder',
                 'MultimodalEncoderDecoder')
}


def bayesian_model_cfg(cfg: Config) -> ConfigDict:
    """The config of a Bayesian segmentor, from that of any segmentor.

    A plain segmentor becomes the Bayesian class of its kind with
    ``DeterministicPosterior``. Its predictions stay the same; its maps are
    those of one network.
    """
    model = copy.deepcopy(cfg.model)
    check_options(model.get('posterior') or {})
    if 'posterior' not in model:
        if model.type not in BAYESIAN:
            raise ValueError(
                f'model.type={model.type!r} has no uncertainty; write one of '
                f'{sorted(BAYESIAN.values())} with a posterior.')
        model.type = BAYESIAN[model.type]
        model.posterior = dict(type='DeterministicPosterior')
    forget_pretrained(model)
    if cfg.get('data_preprocessor') is not None:
        model.setdefault('data_preprocessor', cfg.data_preprocessor)
    return model


def forget_pretrained(model: dict) -> None:
    """Remove pretrained weights, which a checkpoint replaces."""
    for key, value in model.items():
        if key in ('pretrained', 'init_cfg'):
            model[key] = None
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                forget_pretrained(part)


def build_segmentor(cfg: Config,
                    checkpoints: Paths,
                    device: Optional[str] = None) -> BayesianSegmentor:
    """A segmentor in eval mode, with its weights and members.

    Args:
        cfg (Config): Its ``load_from`` is the base if the checkpoints are
            member files only.
        checkpoints (str | Sequence[str]): The base and member files in any
            order, or one full checkpoint. Without member files, those that
            the posterior's ``members`` names are used. Several full ones
            are the networks of an ``EnsemblePosterior``.
        device (str, optional): Defaults to a GPU if there is one.
    """
    init_default_scope(cfg.get('default_scope', 'mmseg'))
    full, members = split_checkpoints(checkpoints)
    if members and not full:
        full = [cfg.get('load_from')]
    model_cfg = bayesian_model_cfg(cfg)
    is_ensemble = model_cfg.posterior.type == 'EnsemblePosterior'
    if not full or not full[0] or (len(full) > 1 and not is_ensemble):
        raise ValueError(
            f'got {len(full)} full checkpoints and {len(members)} member '
            'files; give one base checkpoint (or load_from in the config) '
            'and any number of member files.')
    model = MODELS.build(model_cfg)
    if members:
        # Files given here replace those that the config names.
        model.posterior.member_files = None
    load_base(model, full[0])
    if len(full) > 1:
        model.posterior.set_checkpoints(full)
    if members:
        if not model.posterior.takes_members:
            raise ValueError(
                f'{members[0]} is a member file, but the posterior '
                f'{type(model.posterior).__name__} of the config has no '
                'members; use the ABNN config.')
        load_members(model, members)
    model.cfg = cfg
    return model.to(device or get_device()).eval()


def split_checkpoints(checkpoints: Paths) -> tuple[list, list]:
    """Sort files into full checkpoints and member files; refuse duplicates."""
    if isinstance(checkpoints, (str, Path)):
        checkpoints = [checkpoints]
    check_distinct(checkpoints)
    members = [path for path in checkpoints if is_member_file(path)]
    return [path for path in checkpoints if path not in members], members


def build_posterior(model: BayesianSegmentor, cfg: dict,
                    members: Sequence = ()) -> Posterior:
    """Build another posterior and attach it to a segmentor.

    Args:
        model (BayesianSegmentor): See :func:`build_segmentor`.
        cfg (dict): The posterior. If it names ``members``, these are used
            instead of the given ones.
        members (Sequence[str]): Member files, used if the posterior takes
            members.
    """
    check_options(cfg)
    posterior = MODELS.build(cfg)
    posterior.attach(model)
    named = posterior.member_files
    members = members if named is None else named
    if members and posterior.takes_members:
        load_members(model, members, posterior)
    return posterior


@contextmanager
def another_posterior(model: BayesianSegmentor, posterior: Posterior):
    """A context in which a segmentor predicts with another posterior.

    Only for runners, which call ``predict``: other code passes the posterior
    to :meth:`BayesianSegmentor.answer`.
    """
    own, model.posterior = model.posterior, posterior
    try:
        yield
    finally:
        model.posterior = own
