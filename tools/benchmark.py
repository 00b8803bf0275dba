"""Measure speed and memory; results for people and, as JSON, for programs."""
import argparse
import importlib
import json

from abnn_mmseg.utils.console import print_table, say_errors
from abnn_mmseg.utils.files import atomic_write

BENCHMARKS = ('inference', 'finetune', 'gradients', 'metrics', 'accuracy',
              'posterior', 'zoo', 'export', 'large', 'soak', 'threads',
              'guarantees', 'scores', 'many')


def parse_args(modules: dict) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parsers = parser.add_subparsers(dest='benchmark', required=True)
    for name, module in modules.items():
        sub = parsers.add_parser(
            name, description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter)
        sub.add_argument('--json', help='file for the results')
        module.add_arguments(sub)
    return parser.parse_args()


def main() -> None:
    modules = {
        name: importlib.import_module(f'benchmarks.{name}')
        for name in BENCHMARKS
    }
    args = parse_args(modules)
    result = modules[args.benchmark].run(args)
    numbers = [dict(key=key, value=value) for key, value in result.items()
               if isinstance(value, (int, float, str))]
    print_table(f'Benchmark: {args.benchmark}', numbers)
    for key, value in result.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            print_table(key, value)
        elif isinstance(value, dict):
            print_table(key, [value])
    if args.json:
        atomic_write(args.json, json.dumps(result, indent=2) + '\n')


if __name__ == '__main__':
    with say_errors():
        main()
