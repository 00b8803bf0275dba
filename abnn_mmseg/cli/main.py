"""The ``abnn`` command; ``tools/*.py`` run its subcommands."""
import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Optional

from abnn_mmseg import __version__
from abnn_mmseg.utils.console import hide_library_messages, say_errors

# A subcommand is a module of this package, imported when it is called; `-` in
# its name is `_` in the module's.
COMMANDS = {
    'init': 'write the ABNN config of your own network',
    'train': 'train a base network, or the ABNN members of one',
    'distill': 'make a student that gives the maps of all networks in one '
               'pass',
    'test': 'test a base network, or a base with its members',
    'export': 'write predictions and uncertainty maps of images',
    'onnx': 'write a model with all its networks as one ONNX file',
    'members': 'list, merge, verify, calibrate, export and import members',
    'certify': 'calibrate label sets and alarms that keep a promise',
    'fit': 'fit a posterior over norms: Laplace, SWAG, HMC',
    'compare': 'compare methods on the same images',
    'search': 'choose settings on validation images',
    'check-dataset': "count a config's images and labels; find broken files",
    'make-muad-sketch': 'draw a small dataset in the layout of MUAD',
    'make-bdd-anomaly': 'write the lists of BDD-Anomaly',
    'demo': 'draw a dataset, train, make it Bayesian, test, export',
}


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Run ``abnn COMMAND ARGUMENTS...``.

    Args:
        argv (Sequence[str], optional): Defaults to the command line.
    """
    width = max(map(len, COMMANDS)) + 2
    parser = argparse.ArgumentParser(
        'abnn', description='Per-pixel uncertainty for any MMSegmentation '
        'model.', formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog='commands:\n' + '\n'.join(
            f'  {name:{width}}{text}' for name, text in COMMANDS.items()) +
        '\n\n`abnn COMMAND --help` lists the arguments of a command.')
    parser.add_argument('--version', action='version', version=__version__)
    parser.add_argument('command', choices=COMMANDS, metavar='COMMAND')
    parser.add_argument('arguments', nargs=argparse.REMAINDER,
                        help=argparse.SUPPRESS)
    argv = sys.argv[1:] if argv is None else argv
    args = parser.parse_args(argv or ['--help'])
    # For `custom_imports` of modules in the current folder, as with
    # `python -m`; at the end, so that they hide nothing.
    sys.path.append(os.getcwd())
    run_command(args.command, args.arguments, f'abnn {args.command}')


def run_command(name: str, argv: Optional[Sequence[str]] = None,
                prog: Optional[str] = None) -> None:
    """Run a subcommand; an error ends it with one sentence.

    Args:
        name (str): One of ``COMMANDS``.
        argv (Sequence[str], optional): Its arguments. Defaults to the
            command line.
        prog (str, optional): What ``--help`` calls it. Defaults to the name
            of the script.
    """
    with say_errors():
        module = load_command(name)
        hide_library_messages()
        code = module.run(command_parser(name, prog).parse_args(argv))
        # Imported here, so that --help does not wait for torch.
        from abnn_mmseg.engine.launch import leave_processes
        leave_processes()
        if code:
            sys.exit(code)


def load_command(name: str) -> ModuleType:
    """The module of a subcommand."""
    return import_module(f'abnn_mmseg.cli.{name.replace("-", "_")}')


def command_parser(name: str,
                   prog: Optional[str] = None) -> argparse.ArgumentParser:
    """The parser of a subcommand's arguments."""
    module = load_command(name)
    parser = argparse.ArgumentParser(prog, description=module.__doc__)
    module.add_arguments(parser)
    return parser
