"""The settings that a training depends on, and how they are compared."""
import json
from pathlib import Path
from typing import Any, Optional

import mmengine
import mmseg
import torch
from mmengine.config import Config
from mmengine.dist import barrier, is_main_process

import abnn_mmseg
from abnn_mmseg.utils.files import atomic_write

# The file of the settings, in the folder of an unfinished training.
FILE = 'settings.json'

PARTS = ('model', 'optim_wrapper', 'param_scheduler', 'train_cfg',
         'train_dataloader')
# Only predictions depend on these, or MemberTrainer compares them itself.
NOT_OF_MODEL = ('posterior', 'prediction', 'temperature', 'scores',
                'test_cfg', 'pretrained', 'init_cfg')
NOT_OF_LOADER = ('num_workers', 'persistent_workers', 'pin_memory',
                 'prefetch_factor')


def training_settings(cfg: Config) -> dict[str, Any]:
    """All settings that training depends on, by their dotted names.

    Args:
        cfg (Config): The members'. Settings that matter only for predicting,
            or for the speed of loading, are left out.
    """
    parts = {name: cfg.get(name) for name in PARTS}
    parts['model'] = _without(parts['model'], NOT_OF_MODEL)
    parts['train_dataloader'] = _without(parts['train_dataloader'],
                                         NOT_OF_LOADER)
    # The member is the average that this hook computes.
    parts['ema'] = [hook for hook in cfg.get('custom_hooks') or []
                    if hook['type'] == 'EMAHook']
    return dict(_flat('', as_stored(parts)))


def as_stored(settings: Any) -> Any:
    """Settings as they are read from JSON, where tuples become lists."""
    return json.loads(json.dumps(settings, default=str))


def first_difference(known: dict, wanted: dict) -> Optional[str]:
    """The name of the first setting that differs; None if all agree."""
    for name in sorted({*known, *wanted}):
        if known.get(name) != wanted.get(name):
            return name
    return None


def check_settings(place: Path, known: dict, wanted: dict) -> None:
    """Raise ValueError naming a setting that differs from the config."""
    name = first_difference(known, wanted)
    if name is not None:
        raise ValueError(
            f'{place} was trained with {name}={known.get(name)!r}, the '
            f'config says {wanted.get(name)!r}; remove it to train it '
            'again, or choose another --work-dir.')


def keep_settings(folder: Path, settings: dict, resumes: bool) -> None:
    """Store the settings of a training; refuse to resume it with others.

    Args:
        folder (Path): Folder of the training.
        settings (dict): All settings that the result depends on, as builtins.
        resumes (bool): Whether the training in the folder is resumed.
    """
    path = folder / FILE
    if resumes and path.is_file():
        check_settings(folder, json.loads(path.read_text()), settings)
    barrier()
    if is_main_process():
        atomic_write(path, json.dumps(settings))
    barrier()


def versions() -> dict[str, str]:
    """Versions of the packages that training depends on."""
    return dict(
        abnn_mmseg=abnn_mmseg.__version__,
        torch=str(torch.__version__),
        mmengine=mmengine.__version__,
        mmseg=mmseg.__version__)


def _without(part: Optional[dict], names: tuple[str, ...]) -> dict:
    return {k: v for k, v in (part or {}).items() if k not in names}


def _flat(name: str, value: Any):
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _flat(f'{name}.{key}' if name else key, part)
    elif isinstance(value, list) and any(
            isinstance(part, dict) for part in value):
        for number, part in enumerate(value):
            yield from _flat(f'{name}[{number}]', part)
    else:
        yield name, value
