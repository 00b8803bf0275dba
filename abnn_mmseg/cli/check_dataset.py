"""Count the images and labels of a config's datasets; find broken files."""
import argparse

import mmengine
from mmseg.utils import register_all_modules
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import abnn_mmseg.datasets  # noqa: F401 - fills the registry
from abnn_mmseg.datasets.check import check_config, check_dataset
from abnn_mmseg.engine.test_sets import choose_test_sets
from abnn_mmseg.utils.arguments import add_config, read_config
from abnn_mmseg.utils.console import progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``abnn check-dataset``."""
    add_config(parser, 'any config with dataloaders')
    parser.add_argument(
        '--split',
        nargs='+',
        default=('train', 'val', 'test'),
        choices=('train', 'val', 'test'),
        help='dataloaders to check (default: all)')
    parser.add_argument(
        '--datasets',
        nargs='*',
        metavar='NAME',
        help="instead: names in the config's test_sets (none: all of them)")
    parser.add_argument('--json', help='also write the report to this file')


def show(console, report):
    """Print one dataset: its label shares, then its problems."""
    sizes = ', '.join(f'{n} of {size}' for size, n in report.sizes.items())
    console.print(f'\n[bold]{report.loader}: {escape(report.name)}[/] '
                  f'({report.protocol}), {report.images} images'
                  f'{", " if sizes else ""}{sizes}')
    if report.total:
        console.print(label_table(report))
    for problem in report.problems:
        console.print(f'[red]problem:[/] {escape(problem)}')


def label_table(report):
    """Pixels of each label; classes that never occur are left out."""
    table = Table('label', 'pixels', 'share')
    rows = [*zip(report.classes, report.pixels),
            ('in-distribution, no class', report.known)]
    rows = [(name, pixels) for name, pixels in rows if pixels]
    for name, pixels in rows + [('OOD', report.ood), ('void', report.void)]:
        table.add_row(
            escape(name), f'{pixels:,}', f'{report.share(pixels):.3%}')
    return table


def run(args: argparse.Namespace) -> int:
    """Run ``abnn check-dataset``."""
    register_all_modules()
    cfg = read_config(args)
    console = Console()
    if args.datasets is None:
        reports = check_config(cfg, args.split, progress=progress)
    else:
        reports = [
            check_dataset(test_set.dataloader.dataset, name, progress)
            for name, test_set in choose_test_sets(cfg, args.datasets).items()
        ]
    for report in reports:
        show(console, report)
    if args.json:
        mmengine.dump([r.to_dict() for r in reports], args.json, indent=2)
    problems = sum(len(report.problems) for report in reports)
    console.print(f'[red]{problems} problems[/]' if problems else
                  f'[green]{len(reports)} datasets, no problem[/]')
    return 1 if problems or not reports else 0
