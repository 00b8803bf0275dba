"""Train a base network, or the ABNN members of one."""
import argparse
from pathlib import Path

from mmengine.config import Config, DictAction

from abnn_mmseg.engine import train
from abnn_mmseg.engine.amp import DTYPES, default_dtype, train_with_amp
from abnn_mmseg.utils.console import print_table, say_errors

COLUMNS = ('name', 'mIoU', 'cal/pooled/NLL', 'cal/pooled/ECE')


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='config file')
    parser.add_argument('--work-dir', help='where logs and members go')
    parser.add_argument(
        '--members', type=int, help='how many members (num_members)')
    parser.add_argument(
        '--member', type=int, help='train only this one, counted from 0')
    parser.add_argument(
        '--resume', action='store_true', help='go on where it stopped')
    parser.add_argument(
        '--amp', nargs='?', const=default_dtype(), choices=DTYPES,
        help='mixed precision training (%(const)s)')
    parser.add_argument(
        '--cfg-options', nargs='+', action=DictAction,
        help='override settings, key=value')
    parser.add_argument(
        '--launcher', choices=['none', 'pytorch', 'slurm', 'mpi'],
        default='none', help='job launcher')
    parser.add_argument('--local_rank', '--local-rank', type=int, default=0)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    cfg = Config.fromfile(args.config)
    cfg.merge_from_dict(args.cfg_options or {})
    cfg.launcher = args.launcher
    cfg.resume = args.resume or cfg.get('resume', False)
    cfg.work_dir = args.work_dir or cfg.get(
        'work_dir') or f'work_dirs/{Path(args.config).stem}'
    if args.amp:
        train_with_amp(cfg, args.amp)
    rows = train(cfg, args.members, args.member)
    if rows:
        columns = [c for c in COLUMNS if c in rows[0]]
        print_table(f'Validation, all of it in {cfg.work_dir}/validation.json',
                    rows, columns)


if __name__ == '__main__':
    with say_errors():
        main()
