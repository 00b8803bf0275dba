"""Train a base network: mmseg's own training, resumed where it stopped."""
from pathlib import Path

from mmengine.config import Config

from abnn_mmseg.engine.runners import AtomicRunner, last_readable, log_file
from abnn_mmseg.utils.checkpoints import read_checkpoint


def train_base(cfg: Config) -> None:
    """Train the network of a config as mmseg does.

    With ``cfg.resume`` it goes on from the last checkpoint in the work
    folder; without one it starts from ``load_from``, which mmengine would
    resume.
    """
    last = last_readable(Path(cfg.work_dir)) if cfg.get('resume') else None
    if last is not None:
        cfg.load_from = last
    cfg.resume = last is not None
    if cfg.get('load_from') and '://' not in cfg.load_from:
        # Fail early with a clear message.
        read_checkpoint(cfg.load_from)
    runner = AtomicRunner.from_cfg(cfg)
    start = f'goes on from {last}' if last else 'starts at iteration 0'
    runner.logger.info(f'Training {start}; log: {log_file(runner.logger)}')
    runner.train()
