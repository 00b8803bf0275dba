"""Arguments that the tools share, by mmseg's names."""
import argparse
from pathlib import Path

from mmengine.config import Config, DictAction

from abnn_mmseg.utils.configs import PREFIX, find_config

CONFIGS = ('.py', '.json', '.yaml', '.yml')
LAUNCHERS = ('none', 'pytorch', 'slurm', 'mpi')


def add_config(parser: argparse.ArgumentParser,
               config: str = 'config file') -> None:
    """Add a config, and options that override it."""
    parser.add_argument(
        'config', help=f'{config}, or {PREFIX}NAME for one of the package')
    add_cfg_options(parser)


def add_cfg_options(parser: argparse.ArgumentParser) -> None:
    """Add options that override a config."""
    parser.add_argument(
        '--cfg-options', nargs='+', action=DictAction,
        help='override settings, key=value')


def add_launcher(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of job launchers."""
    parser.add_argument(
        '--launcher', choices=LAUNCHERS, default='none', help='job launcher')
    parser.add_argument('--local_rank', '--local-rank', type=int, default=0)


def config_file(path: str) -> Config:
    """Read a config; raise an error for a file that is not a config."""
    path = find_config(path)
    if Path(path).suffix not in CONFIGS:
        raise ValueError(
            f'{path} is not a config, which ends in {", ".join(CONFIGS)}; '
            'give the config first, then the checkpoint.')
    if not Path(path).is_file():
        raise FileNotFoundError(
            f'{path} does not exist; give the path of a config, or '
            f'{PREFIX}NAME for one of the package.')
    return Config.fromfile(path)


def read_config(args: argparse.Namespace) -> Config:
    """Read a config; set options, launcher and work folder."""
    cfg = config_file(args.config)
    cfg.merge_from_dict(args.cfg_options or {})
    if hasattr(args, 'launcher'):
        cfg.launcher = args.launcher
    if hasattr(args, 'work_dir'):
        cfg.work_dir = args.work_dir or cfg.get(
            'work_dir') or f'work_dirs/{Path(cfg.filename).stem}'
    return cfg
