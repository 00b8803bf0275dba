"""Test a base network, or a base with its members, on a config's test set."""
import argparse
from pathlib import Path

from mmengine.config import Config, DictAction

from abnn_mmseg.engine.tester import tables, test
from abnn_mmseg.utils.console import print_table, say_errors


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='config file')
    parser.add_argument(
        'checkpoint', nargs='+',
        help='base checkpoint and member files, or one full checkpoint')
    parser.add_argument('--work-dir', help='where metrics.json goes')
    parser.add_argument(
        '--plots', action='store_true', help='draw the curves as PNG')
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
    cfg.work_dir = args.work_dir or cfg.get(
        'work_dir') or f'work_dirs/{Path(args.config).stem}'
    plots = f'{cfg.work_dir}/plots' if args.plots else None
    metrics = test(cfg, args.checkpoint, plots)
    for title, rows in tables(metrics):
        print_table(title, rows)
    print(f'Written to {cfg.work_dir}/metrics.json')


if __name__ == '__main__':
    with say_errors():
        main()
