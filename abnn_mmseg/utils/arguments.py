"""Arguments that the tools share, by mmseg's names."""
import argparse
from pathlib import Path

from mmengine.config import Config, DictAction

CONFIGS = ('.py', '.json', '.yaml', '.yml')
LAUNCHERS = ('none', 'pytorch', 'slurm', 'mpi')


def config_parser(description: str,
                  config: str = 'config file') -> argparse.ArgumentParser:
    """A parser of a config and of options that override it."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument('config', help=config)
    parser.add_argument(
        '--cfg-options', nargs='+', action=DictAction,
        help='override settings, key=value')
    return parser


def add_launcher(parser: argparse.ArgumentParser) -> None:
    """What a job launcher passes, or wants to be known."""
    parser.add_argument(
        '--launcher', choices=LAUNCHERS, default='none', help='job launcher')
    parser.add_argument('--local_rank', '--local-rank', type=int, default=0)


def config_file(path: str) -> Config:
    """Read a config; a checkpoint in its place gets a clear message."""
    if Path(path).suffix not in CONFIGS:
        raise ValueError(
            f'{path} is not a config, which ends in {", ".join(CONFIGS)}; '
            'give the config first, then the checkpoint.')
    return Config.fromfile(path)


def read_config(args: argparse.Namespace) -> Config:
    """The config with options, launcher and work folder of the arguments."""
    cfg = config_file(args.config)
    cfg.merge_from_dict(args.cfg_options or {})
    if hasattr(args, 'launcher'):
        cfg.launcher = args.launcher
    if hasattr(args, 'work_dir'):
        cfg.work_dir = args.work_dir or cfg.get(
            'work_dir') or f'work_dirs/{Path(args.config).stem}'
    return cfg
