"""Choose ABNN's settings on validation images; every trial is logged."""
import argparse

from abnn_mmseg.comparison.search import Search, ranking
from abnn_mmseg.evaluation.anomaly import MEASURES
from abnn_mmseg.utils.arguments import add_config
from abnn_mmseg.utils.console import print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``abnn search``."""
    add_config(parser, 'config with search')
    parser.add_argument('--log', required=True, help='JSON lines of trials')
    parser.add_argument(
        '--images', type=int, help='images of val, evenly spread')
    parser.add_argument(
        '--by', choices=MEASURES, default='AUPR',
        help='what the table is sorted by (default AUPR)')
    parser.add_argument(
        '--top', type=int, default=25, help='lines of the table')
    parser.add_argument('--device', help='such as cpu or cuda:0')


def run(args: argparse.Namespace) -> None:
    """Run ``abnn search``."""
    search = Search(args.config, args.log, args.cfg_options, args.images,
                    args.device)
    trials = search.run()
    print_table(
        f'Validation, {len(search.data.images)} images, by {args.by}; keeps: '
        "the base's accuracy and calibration",
        ranking(trials, args.by)[:args.top])
    print(f'All {len(trials)} trials: {args.log}')
