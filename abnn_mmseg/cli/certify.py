"""Calibrate a guarantee on labelled images, and store it with the members.

For new images of the same kind, it bounds how often label sets lack the true
class, or how often an alarm is false or misses unknown pixels.
"""
import argparse
from pathlib import Path

from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.engine.test_sets import choose_test_sets
from abnn_mmseg.members.certify import Wanted, certify
from abnn_mmseg.members.files import store_guarantee
from abnn_mmseg.members.guarantees import write_guarantees
from abnn_mmseg.uncertainty.guarantees import RISKS
from abnn_mmseg.utils.arguments import add_config, read_config
from abnn_mmseg.utils.configs import part_of
from abnn_mmseg.utils.console import print_table
from abnn_mmseg.utils.files import sweep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``abnn certify``."""
    add_config(parser)
    parser.add_argument('base', help='base or full checkpoint')
    parser.add_argument(
        'members', nargs='?', help='member file, which keeps the guarantee')
    parser.add_argument(
        '--risk', required=True, choices=RISKS,
        help='label-set: share of pixels whose set lacks the true class; '
        'coverage: images in which too many pixels lack it; false-alarm: '
        'images with a false alarm; miss: share of unknown pixels that the '
        'alarm misses')
    parser.add_argument(
        '--level', type=float, required=True,
        help='largest risk to promise, such as 0.05')
    parser.add_argument(
        '--part', type=float, help='coverage: share of an image\'s pixels '
        'whose set must hold the true class (default 0.9); false-alarm: '
        'share of known pixels that may be flagged (default 0)')
    parser.add_argument(
        '--score', help="score of an alarm (default: the segmentor's first)")
    parser.add_argument(
        '--data', default='val', help='val, test, or what `abnn test '
        '--datasets` takes (default val)')
    parser.add_argument('--images', type=int, help='use so many, evenly '
                        'spread')
    parser.add_argument(
        '--out', help='file for the guarantee instead of the member file; '
        'without members BASE.guarantees.json')
    parser.add_argument('--device', help='such as cpu or cuda:0')


def run(args: argparse.Namespace) -> None:
    """Calibrate, store, and print the promise."""
    cfg = read_config(args)
    checkpoints = [args.base] + ([args.members] if args.members else [])
    model = build_segmentor(cfg, checkpoints, args.device)
    guarantee = certify(
        cfg, model, Wanted(args.risk, args.level, args.score, args.part),
        dataset_of(cfg, args.data), args.data, args.images)
    content = guarantee.to_dict()
    where = args.out or args.members or str(
        Path(args.base).with_suffix('.guarantees.json'))
    sweep(where)
    if where == args.members:
        store_guarantee(where, content)
    else:
        write_guarantees(where, [content])
    shown = dict(risk=guarantee.risk, level=args.level,
                 threshold=guarantee.threshold, images=guarantee.images)
    shown['risk on these'] = guarantee.measured
    print_table('Guarantee', [shown])
    print(f'Promised: {guarantee.sentence()}.')
    print(f'Stored in {where}')
    if where != args.members:
        print(f'To use it, write model.guarantees={where!r} in the config.')


def dataset_of(cfg, name: str) -> dict:
    """The config of a dataset by name, for calibration."""
    if name in ('val', 'test', 'train'):
        return part_of(cfg, f'{name}_dataloader').dataset
    [test_set] = choose_test_sets(cfg, [name]).values()
    return test_set.dataloader.dataset
