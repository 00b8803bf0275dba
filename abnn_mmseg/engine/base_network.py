"""The base network: train it as mmseg does, or check that it exists."""
from pathlib import Path

from mmengine.config import Config

from abnn_mmseg.engine.runners import AtomicRunner, last_readable, log_file
from abnn_mmseg.utils.checkpoints import read_checkpoint


def train_base(cfg: Config) -> None:
    """Train the network of a config as mmseg does.

    With ``cfg.resume`` the last checkpoint in the work folder is resumed. If
    there is none, training starts from the weights of ``load_from``; mmengine
    would resume that file.
    """
    last = last_readable(Path(cfg.work_dir)) if cfg.get('resume') else None
    if last is not None:
        cfg.load_from = last
    cfg.resume = last is not None
    if cfg.get('load_from') and '://' not in cfg.load_from:
        # Fail early with a clear message.
        read_checkpoint(cfg.load_from)
    runner = AtomicRunner.from_cfg(cfg)
    start = f'continues from {last}' if last else 'starts at iteration 0'
    runner.logger.info(f'Training {start}; log: {log_file(runner.logger)}')
    runner.train()


def check_base(cfg: Config) -> None:
    """Raise unless the config names a base that exists."""
    path = cfg.get('load_from')
    if not path:
        raise ValueError(
            'load_from is not set; ABNN starts from a trained network, so '
            'write its checkpoint in the config or pass --cfg-options '
            'load_from=CHECKPOINT.')
    if not Path(path).is_file():
        raise FileNotFoundError(
            f'the base checkpoint load_from={path!r} does not exist; train '
            'it with `abnn train` and its own config first, or point '
            'load_from at yours.')
