"""Runners that write checkpoints atomically and keep a loaded model."""
import copy
import inspect
import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Optional

from mmengine.config import Config
from mmengine.dist import master_only
from mmengine.logging import MMLogger
from mmengine.runner import Runner
from torch import nn

from abnn_mmseg.compat import KeepsWeights
from abnn_mmseg.utils.checkpoints import read_checkpoint
from abnn_mmseg.utils.files import atomic_path


class AtomicRunner(Runner):
    """A runner that writes its checkpoints atomically.

    Environment, config, hooks and the options of every parameter are logged
    to its file, and not to the console.
    """

    def __init__(self, *args, **kwargs) -> None:
        with ExitStack() as self._built, warnings.catch_warnings():
            # mmseg's hook says so in every run that draws nothing.
            warnings.filterwarnings('ignore', 'The draw is False')
            super().__init__(*args, **kwargs)

    def build_logger(self, *args, **kwargs) -> MMLogger:
        """The logger, whose console is silent until the runner is built."""
        logger = super().build_logger(*args, **kwargs)
        self._built.enter_context(only_to_file(logger))
        return logger

    def build_optim_wrapper(self, *args, **kwargs) -> Any:
        """The optimizer wrapper; only errors reach the console."""
        # It warns of every parameter that is frozen, which most are.
        with only_to_file(self.logger, logging.ERROR):
            return super().build_optim_wrapper(*args, **kwargs)

    @master_only
    def save_checkpoint(self, out_dir: str, filename: str, *args,
                        **kwargs) -> None:
        """Save a checkpoint under its name once it is complete."""
        if '://' in out_dir:
            super().save_checkpoint(out_dir, filename, *args, **kwargs)
            return
        with atomic_path(Path(out_dir) / filename) as temporary:
            super().save_checkpoint(out_dir, temporary.name, *args, **kwargs)


class LoadedRunner(KeepsWeights, AtomicRunner):
    """A runner of a model that has its weights already."""


def build_runner(model: nn.Module, cfg: Config, folder: Path,
                 **settings) -> Runner:
    """A runner of a loaded model, with a name and a folder of its own.

    Args:
        model (nn.Module): With all its weights.
        cfg (Config): The config; left as it is.
        folder (Path): The runner's work folder.
        **settings: Entries that replace those of the config.
    """
    cfg = copy.deepcopy(cfg)
    for name, value in settings.items():
        cfg[name] = value
    cfg.experiment_name = (f'{folder.parent.name}_{folder.name}_'
                           f'{time.time_ns()}')
    cfg.work_dir = str(folder)
    if cfg.get('visualizer'):
        # mmengine finds visualizers by name: with an old name, scalars would
        # go to the folder of an earlier runner.
        cfg.visualizer.name = cfg.experiment_name
    names = set(inspect.signature(Runner.__init__).parameters) & set(cfg)
    arguments = {n: cfg[n] for n in names if n not in ('model', 'cfg')}
    return LoadedRunner(model=model, cfg=cfg, **arguments)


@contextmanager
def only_to_file(logger: MMLogger,
                 level: int = logging.WARNING) -> Iterator[None]:
    """For a while, show only lines of a level and above on the console."""
    consoles = [handler for handler in logger.handlers
                if not isinstance(handler, logging.FileHandler)]
    levels = [handler.level for handler in consoles]
    for handler in consoles:
        handler.setLevel(max(handler.level, level))
    try:
        yield
    finally:
        for handler, before in zip(consoles, levels):
            handler.setLevel(before)


def log_file(logger: MMLogger) -> Optional[str]:
    """The file that a logger writes to; None on most processes."""
    return next((handler.baseFilename for handler in logger.handlers
                 if isinstance(handler, logging.FileHandler)), None)


def close_log(runner: Runner) -> None:
    """Close the runner's log file, which mmengine never closes."""
    for handler in list(runner.logger.handlers):
        if isinstance(handler, logging.FileHandler):
            handler.close()
            runner.logger.removeHandler(handler)


def last_readable(folder: Path) -> Optional[str]:
    """The newest checkpoint of a folder that can be read, if there is one."""
    paths = [p for p in folder.glob('*.pth')
             if not p.name.startswith(('best', '.'))]
    for path in sorted(paths, key=lambda p: p.stat().st_mtime, reverse=True):
        with suppress(ValueError):
            read_checkpoint(path)
            return str(path)
    return None
