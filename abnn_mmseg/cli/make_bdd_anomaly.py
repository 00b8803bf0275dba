"""Write the BDD-Anomaly lists for the 10K segmentation part of BDD100K."""
import argparse
import os.path as osp

from rich.table import Table

from abnn_mmseg.datasets.bdd_anomaly import HELD_OUT
from abnn_mmseg.datasets.bdd_split import EXPECTED, split_bdd, write_lists
from abnn_mmseg.utils.console import plain_console, progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``abnn make-bdd-anomaly``."""
    parser.add_argument('data_root', help='folder of BDD100K')
    parser.add_argument(
        '--images', default='images', help='images, below data_root')
    parser.add_argument(
        '--labels', default='labels', help='labels, below data_root')
    parser.add_argument(
        '--label-suffix',
        default='_train_id',
        help="what follows the stem in label names; '' for none")
    parser.add_argument(
        '--with-bicycle',
        action='store_true',
        help='hold out bicycle too: 6280/910/810 images')


def run(args: argparse.Namespace) -> None:
    """Run ``abnn make-bdd-anomaly``."""
    held_out = (*HELD_OUT, 'bicycle') if args.with_bicycle else HELD_OUT
    splits = split_bdd(
        osp.join(args.data_root, args.images),
        osp.join(args.data_root, args.labels),
        args.label_suffix,
        held_out,
        progress=progress)
    folder = write_lists(splits, args.data_root, held_out)

    console = plain_console()
    table = Table('split', 'images', 'expected', title=folder)
    for split, stems in splits.items():
        table.add_row(split, str(len(stems)), str(EXPECTED[held_out][split]))
    console.print(table)
    counts = {split: len(stems) for split, stems in splits.items()}
    if counts != EXPECTED[held_out]:
        console.print('Warning: these are not the published counts. '
                      'Results on this split do not compare with papers; '
                      'check that the download is complete.',
                      style='yellow')
