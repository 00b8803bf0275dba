"""Draw MUAD-sketch: streets with the folders, names and ids of MUAD."""
import argparse
import time

from rich.table import Table

from abnn_mmseg.datasets.muad_sketch import (
    DEFAULT_COUNTS,
    SPLITS,
    class_shares,
    make_muad_sketch,
)
from abnn_mmseg.datasets.muad_sketch.ids import NAMES, VOID
from abnn_mmseg.utils.console import plain_console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``abnn make-muad-sketch``."""
    parser.add_argument('out', help='folder for the splits')
    for split in SPLITS:
        parser.add_argument(
            f'--{split.replace("_", "-")}', type=int, metavar='N',
            default=DEFAULT_COUNTS[split],
            help=f'images of {split} (default {DEFAULT_COUNTS[split]})')
    parser.add_argument('--size', type=int, nargs=2, default=(256, 128),
                        metavar=('W', 'H'), help='default 256 128')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--workers', type=int,
                        help='processes (default: the number of CPUs)')
    parser.add_argument('--force', action='store_true',
                        help='replace a sketch of other parameters')


def summary(manifest, seconds, out):
    """A table of the share of each class in each split."""
    table = Table(title=f'MUAD-sketch in {out}, {seconds:.1f} s',
                  caption='pixels of each class, in %')
    table.add_column('id', justify='right')
    table.add_column('class')
    for split, count in manifest['counts'].items():
        table.add_column(f'{split} ({count})', justify='right')
    shares = class_shares(manifest)
    for i, name in [*enumerate(NAMES), (VOID, 'void')]:
        table.add_row(str(i), name, *(
            f'{shares[split][i]:.2f}' if shares[split][i] else '-'
            for split in SPLITS))
    return table


def run(args: argparse.Namespace) -> None:
    """Run ``abnn make-muad-sketch``."""
    start = time.perf_counter()
    manifest = make_muad_sketch(
        args.out, counts={split: getattr(args, split) for split in SPLITS},
        size=args.size, seed=args.seed, workers=args.workers,
        force=args.force)
    plain_console().print(
        summary(manifest, time.perf_counter() - start, args.out))
