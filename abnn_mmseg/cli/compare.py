"""Compare methods on the same images: one table, one JSON, one figure."""
import argparse

from abnn_mmseg.comparison import compare
from abnn_mmseg.utils.arguments import add_config, read_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``abnn compare``."""
    add_config(parser, 'config with methods and test_sets')
    parser.add_argument(
        '--json', required=True, help='results; figures go beside it')
    parser.add_argument('--work-dir', help='where finished rows are kept')
    parser.add_argument(
        '--images', type=int, help='images of each dataset, evenly spread')
    parser.add_argument(
        '--only', nargs='+', metavar='NAME', help='only these methods')
    parser.add_argument('--device', help='such as cpu or cuda:0')


def run(args: argparse.Namespace) -> None:
    """Compare the methods of a config."""
    cfg = read_config(args)
    compare(cfg, args.json, args.images, args.only, args.device)
    print(f'Numbers: {args.json}')
