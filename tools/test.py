"""Test a base network, or a base with its members, on one or more datasets."""
import argparse
from pathlib import Path

from mmengine.config import Config, DictAction

from abnn_mmseg.engine.amp import DTYPES, default_dtype, test_with_amp
from abnn_mmseg.engine.tester import labelled, tables, test, test_all
from abnn_mmseg.utils.console import print_table, say_errors


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='config file')
    parser.add_argument(
        'checkpoint', nargs='+',
        help='base checkpoint and member files, or one full checkpoint')
    parser.add_argument(
        '--datasets', nargs='*', metavar='NAME',
        help="names in the config's test_sets (none: all of them), or config "
        'files of datasets such as configs/_base_/datasets/road_anomaly.py')
    parser.add_argument(
        '--posteriors', nargs='*', metavar='NAME',
        help="names in the config's posteriors (none: all of them)")
    parser.add_argument(
        '--work-dir', help='where metrics.json and the curves go')
    parser.add_argument(
        '--amp', nargs='?', const=default_dtype(), choices=DTYPES,
        help='mixed precision (%(const)s)')
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
    if args.amp:
        test_with_amp(cfg, args.amp)
    plots = f'{cfg.work_dir}/plots'
    if args.datasets is None and args.posteriors is None:
        results = [({}, test(cfg, args.checkpoint, plots))]
    else:
        results = labelled(test_all(
            cfg, args.checkpoint, args.datasets, args.posteriors, plots))
    for title, rows in tables(results):
        print_table(title, rows)
    print(f'Numbers: {cfg.work_dir}/metrics.json, curves: {plots}')


if __name__ == '__main__':
    with say_errors():
        main()
