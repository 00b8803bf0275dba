"""Train a base network, or the ABNN members of one."""
import argparse
from pathlib import Path

from mmengine.dist import is_main_process

from abnn_mmseg.engine import train
from abnn_mmseg.engine.amp import DTYPES, default_dtype, train_with_amp
from abnn_mmseg.utils.arguments import add_config, add_launcher, read_config
from abnn_mmseg.utils.console import print_table

COLUMNS = ('name', 'mIoU', 'cal/pooled/NLL', 'cal/pooled/ECE')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``abnn train``."""
    add_config(parser)
    parser.add_argument(
        '--work-dir', help='where logs and members go (default: work_dirs/ '
        'and the name of the config)')
    parser.add_argument(
        '--members', type=int, help='how many members (train_cfg.members)')
    parser.add_argument(
        '--member', type=int, help='train only this one, counted from 0')
    parser.add_argument(
        '--resume', action='store_true', help='continue an interrupted run')
    parser.add_argument(
        '--overwrite', action='store_true', help='replace finished members')
    parser.add_argument(
        '--amp', nargs='?', const=default_dtype(), choices=DTYPES,
        help='mixed precision training (%(const)s)')
    add_launcher(parser)


def run(args: argparse.Namespace) -> None:
    """Run ``abnn train``."""
    cfg = read_config(args)
    cfg.resume = args.resume or cfg.get('resume', False)
    if args.amp:
        train_with_amp(cfg, args.amp)
    rows = train(cfg, args.members, args.member, args.overwrite)
    if rows:
        columns = [c for c in COLUMNS if c in rows[0]]
        print_table(f'Validation; all metrics: {cfg.work_dir}/validation.json',
                    rows, columns)
        if len(rows) > 1 and cfg.model.get('prediction', 'base') == 'base':
            print("Members are measured by their own class maps; tests and "
                  "exports keep the base's (model.prediction='base').")
    members = Path(cfg.work_dir) / 'members.pth'
    if 'posterior' in cfg.model and members.is_file() and is_main_process():
        # Numbers of another folder's members would be replaced otherwise.
        folder = f' --work-dir {args.work_dir}' if args.work_dir else ''
        print(f'Members: {members}; next: abnn test {args.config} '
              f'{cfg.load_from} {members}{folder}')
