"""A digest of everything that a model's maps depend on."""
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from abnn_mmseg.engine.loading import bayesian_model_cfg
from abnn_mmseg.export.inferencer import ABNNInferencer
from abnn_mmseg.models.bayesian_norm import bayesian_layers
from abnn_mmseg.utils.checkpoints import bytes_of, is_prior
from abnn_mmseg.utils.files import digest_of

# Options that no map depends on: of training, speed or places of files.
IGNORED = ('init_cfg', 'loss_decode', 'members', 'checkpoints', 'pretrained',
          'train_cfg', 'draws_per_pass', 'share_trunk', 'backend_args',
          'guarantees')
# The same for attributes of a posterior.
IGNORED_OF_POSTERIOR = ('model', 'layers', 'every_layer', 'sites',
                       'draws_per_pass', 'share_trunk',
                       'one_by_one', 'thresholds', 'temperatures',
                       'guarantees')


def model_fingerprint(inferencer: ABNNInferencer) -> str:
    """A digest of weights, members, and settings that a map depends on.

    Settings are those of the config and, if they can be changed later, those
    of the objects. For files the content counts, not the name.
    """
    model = inferencer.model
    state = {name: value for name, value in model.state_dict().items()
             if not is_prior(name)}
    posterior = {
        name: value for name, value in vars(model.posterior).items()
        if not name.startswith('_') and name not in IGNORED_OF_POSTERIOR}
    posterior['views'] = [str(view) for view in model.posterior.views]
    sha = hashlib.sha256()
    for part in (
            _seen(bayesian_model_cfg(inferencer.cfg)),
            _seen(inferencer.pipeline.steps), state, posterior,
            type(model.posterior).__name__,
            {name: layer.alpha
             for name, layer in bayesian_layers(model).items()},
            model.prediction, model.current_temperature(),
            model.test_cfg):
        _add(sha, part)
    return sha.hexdigest()[:16]


def _seen(cfg: Any) -> Any:
    """A config without the options that no map depends on."""
    if isinstance(cfg, Mapping):
        return {key: _seen(value) for key, value in cfg.items()
                if key not in IGNORED}
    if isinstance(cfg, (list, tuple)):
        return [_seen(value) for value in cfg]
    return cfg


def _add(sha, value: Any) -> None:
    """Add any value to the digest, without ambiguity."""
    if isinstance(value, Tensor):
        sha.update(f'{value.dtype} {tuple(value.shape)}'.encode())
        sha.update(bytes_of(value))
    elif isinstance(value, Mapping):
        sha.update(f'dict {len(value)}'.encode())
        for key in sorted(value, key=str):
            _add(sha, str(key))
            _add(sha, value[key])
    elif isinstance(value, Iterable) and not isinstance(value, str):
        items = list(value)
        sha.update(f'list {len(items)}'.encode())
        for item in items:
            _add(sha, item)
    elif isinstance(value, (str, Path)) and _is_file(value):
        sha.update(digest_of(value).encode())
    elif isinstance(value, (str, int, float, type(None))):
        sha.update(json.dumps(value).encode())
    else:
        # Classes in a config are named, other objects by their class.
        sha.update(getattr(value, '__name__', type(value).__name__).encode())


def _is_file(text) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False
