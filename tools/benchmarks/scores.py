"""A picture of all scores side by side."""
import argparse
from itertools import islice

from mmengine.config import DictAction

from abnn_mmseg.export import ABNNInferencer
from abnn_mmseg.export.items import find_items
from abnn_mmseg.export.overview import write_overview
from abnn_mmseg.uncertainty import SCORES
from abnn_mmseg.utils.arguments import config_file

# How much of a shown image is anomalous at least.
SHARE = 0.04


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``tools/benchmark.py scores``."""
    parser.add_argument('--config', required=True, help='an ABNN config')
    parser.add_argument('--checkpoint', required=True, help='its base')
    parser.add_argument('--members', help='member file on top of it')
    parser.add_argument('--picture', required=True, help='PNG to write')
    parser.add_argument('--images', type=int, default=3,
                        help='so many with large unknown objects (default 3)')
    parser.add_argument('--device', help='such as cpu or cuda:0')
    parser.add_argument('--cfg-options', nargs='+', action=DictAction)


def run(args: argparse.Namespace) -> dict:
    """Write the picture; the largest value of each score as a dict."""
    cfg = config_file(args.config)
    cfg.merge_from_dict(args.cfg_options or {})
    inferencer = ABNNInferencer(cfg, args.checkpoint, args.members,
                                args.device, list(SCORES))
    _, items = find_items(inferencer, 'test')
    found = (result for result in inferencer.results(
        item.load for item in items) if shows_much(result))
    results = list(islice(found, args.images))
    if not results:
        raise ValueError(
            f'no image of the test set of {args.config} has unknown objects '
            f'on {100 * SHARE:g} % of its pixels; name another with '
            '--cfg-options test_dataloader.dataset.split=...')
    write_overview(args.picture, results, inferencer.palette, list(SCORES))
    return {score: max(float(r.maps[score].max()) for r in results)
            for score in SCORES}


def shows_much(result) -> bool:
    """Whether enough of an image is unknown to be seen in a picture."""
    return result.anomaly is not None and (
        (result.anomaly == 1).mean() > SHARE)
