"""Choose alpha, scope and learning rate on your own validation images."""
import argparse
from pathlib import Path

from abnn_mmseg.comparison.tuning import tune
from abnn_mmseg.engine.tester import write_metrics
from abnn_mmseg.utils.console import print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``abnn tune``."""
    parser.add_argument('config', help='ABNN config, such as abnn init writes')
    parser.add_argument('base', help='the trained network')
    parser.add_argument(
        '--work-dir', default='work_dirs/tune',
        help='where trainings, rows and results are kept; run again to go on')
    parser.add_argument(
        '--images', type=int, default=24,
        help='so many validation images, evenly spread (default 24)')
    parser.add_argument('--device', help='such as cpu or cuda:0')


def run(args: argparse.Namespace) -> None:
    """Try the settings, print them and what to write."""
    lines = tune(args.config, args.base, args.work_dir, args.images,
                 args.device)
    path = Path(args.work_dir) / 'tune.json'
    write_metrics(path, dict(settings=lines))
    print_table(
        f'{args.images} validation images with unknown things pasted in, by '
        'entropy; keeps: at most half a point of mIoU lost', lines)
    best = lines[0]['setting']
    if best == 'base':
        print('No setting is better than the base; keep its entropy.')
    else:
        print(f'Write --cfg-options {best}')
    print(f'Numbers: {path}')
