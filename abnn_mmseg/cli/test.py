"""Test a base network, or a base with its members, on one or more datasets."""
import argparse
from collections.abc import Iterable
from pathlib import Path

from abnn_mmseg.engine.amp import DTYPES, default_dtype, test_with_amp
from abnn_mmseg.engine.tester import (
    Metrics,
    labelled,
    tables,
    test,
    test_all,
)
from abnn_mmseg.utils.arguments import add_config, add_launcher, read_config
from abnn_mmseg.utils.console import print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``abnn test``."""
    add_config(parser)
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
    add_launcher(parser)


def run(args: argparse.Namespace) -> None:
    """Run ``abnn test``."""
    cfg = read_config(args)
    if args.amp:
        test_with_amp(cfg, args.amp)
    plots = f'{cfg.work_dir}/plots'
    if args.datasets is None and args.posteriors is None:
        metrics = test(cfg, args.checkpoint, plots)
        results: Iterable[tuple[dict, Metrics]] = [({}, metrics)]
    else:
        results = labelled(test_all(
            cfg, args.checkpoint, args.datasets, args.posteriors, plots))
    for title, rows in tables(results):
        print_table(title, rows)
    curves = f', curves: {plots}' if Path(plots).is_dir() else ''
    print(f'Numbers: {cfg.work_dir}/metrics.json{curves}')
