"""Config, settings and member file that all fits share."""
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Union

from mmengine.config import Config, ConfigDict
from torch import Tensor

from abnn_mmseg.engine.loading import BAYESIAN
from abnn_mmseg.engine.settings import as_stored, training_settings
from abnn_mmseg.members.files import fingerprint, norm_state, save_members
from abnn_mmseg.members.guarantees import weights_digest
from abnn_mmseg.models.posteriors.bank import BankPosterior
from abnn_mmseg.models.scopes import Scope
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.configs import part_of
from abnn_mmseg.utils.files import atomic_write


def fitted_config(cfg: Config, kind: str, scope: Scope = 'all') -> Config:
    """Return the config with this kind of posterior instead of its own.

    Args:
        cfg (Config): Config of the base, or of its ABNN.
        kind (str): Type of the posterior.
        scope (str | Sequence[str]): The layers whose norms vary.
    """
    cfg = Config(cfg.to_dict())
    cfg.model.type = BAYESIAN.get(cfg.model.type, cfg.model.type)
    cfg.model.posterior = dict(type=kind, scope=scope)
    return cfg


def training_set(cfg: Config) -> ConfigDict:
    """The training images with the validation pipeline: no crop, no flip.

    The data of a posterior are fixed, so each pass must see the same pixels.
    """
    dataset = part_of(cfg, 'train_dataloader').dataset
    if 'pipeline' not in dataset:
        return dataset
    return ConfigDict(
        dataset, pipeline=part_of(cfg, 'val_dataloader').dataset.pipeline)


def fit_settings(cfg: Config, model: BayesianSegmentor) -> dict[str, Any]:
    """Return base, data and scope of a fit, as builtins.

    Args:
        cfg (Config): See :func:`fitted_config`.
        model (BayesianSegmentor): With the weights of the base.
    """
    val = cfg.get('val_dataloader') or {}
    more = dict(base=weights_digest(model.posterior),
                scope=cfg.model.posterior.scope, images=val.get('dataset'))
    return {**training_settings(cfg), **as_stored(more)}


def layers_to_fit(model: BayesianSegmentor) -> list[str]:
    """Layers in scope, without those of auxiliary heads."""
    posterior = model.posterior
    assert isinstance(posterior, BankPosterior)
    return [name for name in posterior.in_scope if name in posterior.layers]


def split_vector(theta: Tensor,
                 like: dict[str, Tensor]) -> dict[str, Tensor]:
    """Split a vector, or rows of vectors, into tensors by name."""
    parts = theta.split([value.numel() for value in like.values()], -1)
    return {
        name: part.reshape(*theta.shape[:-1], *like[name].shape).float()
        for name, part in zip(like, parts)
    }


def save_fit(path: Union[str, Path], model: BayesianSegmentor,
             states: Sequence[dict[str, Tensor]], metas: Sequence[dict],
             report: dict) -> None:
    """Write a member file, and the report of the fit beside it as JSON.

    Args:
        path (str): The file; the report has its name and ``.json``.
        model (BayesianSegmentor): With the weights of the base.
        states (Sequence[dict]): Tensors of each member that replace those of
            the base.
        metas (Sequence[dict]): Descriptions of the members.
        report (dict): Numbers about the fit.
    """
    own = norm_state(model)
    # Before the member file, which says that the fit is finished.
    atomic_write(Path(path).with_suffix('.json'),
                 json.dumps(report, indent=2) + '\n')
    save_members(path, [
        dict(state={**own, **state}, meta=meta)
        for state, meta in zip(states, metas)
    ], fingerprint(model))
