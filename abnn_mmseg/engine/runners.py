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
from mmengine.dist import barrier, master_only
from mmengine.hooks import Hook
from mmengine.logging import MMLogger
from mmengine.model import BaseTTAModel, is_model_wrapper
from mmengine.runner import Runner
from torch import nn

from abnn_mmseg.compat import KeepsWeights
from abnn_mmseg.datasets.replay import replayable
from abnn_mmseg.engine.settings import keep_settings
from abnn_mmseg.utils.checkpoints import read_checkpoint
from abnn_mmseg.utils.console import hide_library_messages
from abnn_mmseg.utils.files import atomic_path

# Settings of a runner that only trains.
WITHOUT_TESTS: dict[str, None] = dict.fromkeys(
    f'{split}_{part}' for split in ('val', 'test')
    for part in ('dataloader', 'cfg', 'evaluator'))


class AtomicRunner(Runner):
    """A runner that writes its checkpoints atomically.

    Environment, config, hooks and the options of every parameter are logged
    to the file only, not to the console.
    """

    def __init__(self, *args, **kwargs) -> None:
        with ExitStack() as self._built, warnings.catch_warnings():
            # mmseg's hook warns of this in every run without pictures.
            warnings.filterwarnings('ignore', 'The draw is False')
            super().__init__(*args, **kwargs)

    def build_logger(self, *args, **kwargs) -> MMLogger:
        """The logger, whose console is silent until the runner is built."""
        logger = super().build_logger(*args, **kwargs)
        hide_library_messages(logger)
        self._built.enter_context(only_to_file(logger))
        return logger

    def build_optim_wrapper(self, *args, **kwargs) -> Any:
        """The optimizer wrapper; only errors reach the console."""
        # It warns of every frozen parameter, and most are frozen.
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
        cfg (Config): The config, which is not changed.
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


def training_runner(model: nn.Module, cfg: Config, folder: Path,
                    loader: dict, seed: int, settings: dict, resume: bool,
                    **changes) -> Runner:
    """A runner whose training can be resumed and repeated.

    Args:
        model (nn.Module): With all its weights.
        cfg (Config): The config, which is not changed.
        folder (Path): The runner's work folder.
        loader (dict): The training dataloader.
        seed (int): Seed of the training.
        settings (dict): All settings that the result depends on, as builtins.
        resume (bool): Continue from the last checkpoint in the folder.
        **changes: Entries that replace those of the config.
    """
    last = last_readable(folder) if resume else None
    keep_settings(folder, settings, last is not None)
    return build_runner(
        model, cfg, folder,
        randomness=dict(cfg.get('randomness') or {}, seed=seed),
        train_dataloader=replayable(loader, seed),
        load_from=last, resume=last is not None, **changes)


def bare_model(model: Any) -> Any:
    """The model inside DDP and test-time augmentation."""
    while is_model_wrapper(model) or isinstance(model, BaseTTAModel):
        model = model.module
    return model


def train_and_close(runner: Runner, *hooks: Hook) -> None:
    """Train with more hooks; then close the log file."""
    for hook in hooks:
        runner.register_hook(hook)
    try:
        runner.train()
    finally:
        close_log(runner)
    barrier()


@contextmanager
def only_to_file(logger: MMLogger,
                 level: int = logging.WARNING) -> Iterator[None]:
    """A context in which the console shows only lines of a higher level."""
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
