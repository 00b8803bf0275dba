"""Compare methods on the same images: one table, one JSON, one figure."""
import argparse
from pathlib import Path

from mmengine.config import Config, DictAction

from abnn_mmseg.apis.comparison import compare
from abnn_mmseg.utils.console import say_errors


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='config with methods and test_sets')
    parser.add_argument(
        '--json', required=True, help='results; the figures lie beside')
    parser.add_argument('--work-dir', help='where finished rows are kept')
    parser.add_argument(
        '--images', type=int, help='so many of each dataset, evenly spread')
    parser.add_argument(
        '--only', nargs='+', metavar='NAME', help='only these methods')
    parser.add_argument('--device', help='such as cpu or cuda:0')
    parser.add_argument(
        '--cfg-options', nargs='+', action=DictAction,
        help='override settings, key=value')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    cfg = Config.fromfile(args.config)
    cfg.merge_from_dict(args.cfg_options or {})
    cfg.work_dir = args.work_dir or cfg.get(
        'work_dir') or f'work_dirs/{Path(args.config).stem}'
    compare(cfg, args.json, args.images, args.only, args.device)
    print(f'Numbers: {args.json}')


if __name__ == '__main__':
    with say_errors():
        main()
