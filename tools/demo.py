"""Draw a dataset, train a base, make it Bayesian, test both, open a page."""
import argparse
from pathlib import Path

from abnn_mmseg.cli.demo import Demo
from abnn_mmseg.utils.console import print_table, say_errors


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--work-dir', default='work_dirs/demo')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    demo = Demo(args.work_dir, Path(__file__).resolve().parents[1])
    rows = demo.run()
    print_table('Time', [dict(step=k, seconds=v)
                         for k, v in demo.seconds.items()])
    print_table(
        'MUAD-sketch: mIoU and ECE on test_id, anomaly scores on test_ood '
        '(pooled), in %', rows)
    print(f'Numbers: {args.work_dir}/metrics.json')
    print(f'Look at the maps: {args.work_dir}/report/index.html')


if __name__ == '__main__':
    with say_errors():
        main()
