"""Configs by name: ``abnn_mmseg::NAME`` and ``mmseg::NAME``."""
from pathlib import Path
from typing import Any, Union

import mmseg
from mmengine.config import Config

from abnn_mmseg.compat import find_bases_with
from abnn_mmseg.utils.choices import closest

PREFIX = 'abnn_mmseg::'


def configs_folder() -> Path:
    """The configs of this package: in the wheel, or beside it in a clone."""
    package = Path(__file__).resolve().parents[1]
    installed = package / '.mim' / 'configs'
    return installed if installed.is_dir() else package.parent / 'configs'


def config_path(name: str) -> str:
    """Path of a config of this package, or of mmseg.

    In a ``_base_`` it also works before the package is imported, such as in
    mmseg's own tools::

        _base_ = __import__('abnn_mmseg').config_path('NAME.py')

    Args:
        name (str): Path below ``configs``; with ``mmseg::`` before it, below
            those of mmseg.
    """
    package, _, below = name.rpartition('::')
    folder, prefix = configs_folder(), PREFIX
    if package == 'mmseg':
        folder = Path(mmseg.__path__[0]) / '.mim' / 'configs'
        prefix = 'mmseg::'
    path = folder / below
    if not path.is_file():
        names = [p.relative_to(folder).as_posix()
                 for p in sorted(folder.rglob('*.py'))]
        hint = (f'did you mean {prefix}{closest(below, names)}?' if names else
                f'{folder} has no configs, so install the package again.')
        raise FileNotFoundError(f'{prefix}{below} does not exist; {hint}')
    return str(path)


def find_config(path: Union[str, Path]) -> str:
    """Path of a config file; ``abnn_mmseg::NAME`` is one of this package."""
    path = str(path)
    if path.startswith(PREFIX):
        return config_path(path[len(PREFIX):])
    return path


def register_names() -> None:
    """Let a ``_base_`` name configs of this package and of mmseg."""
    find_bases_with(
        lambda name: find_config(name) if name.startswith(PREFIX) else None)


def part_of(cfg: Config, key: str) -> Any:
    """Return an entry of a config; raise ValueError if it is missing."""
    if cfg.get(key) is None:
        raise ValueError(f'the config has no {key}; inherit from a dataset '
                         'config that has one, or write it.')
    return cfg[key]
