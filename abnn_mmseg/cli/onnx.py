"""Export a model with all its networks as one ONNX file or program.

The suffix of OUT decides: .onnx, or .pt2 for torch.export.
"""
import argparse
from pathlib import Path

import torch

from abnn_mmseg.deploy.onnx import check_packages, export_program, save_onnx
from abnn_mmseg.export import ABNNInferencer
from abnn_mmseg.utils.arguments import add_config, read_config
from abnn_mmseg.utils.console import print_table
from abnn_mmseg.utils.files import atomic_path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``abnn onnx``."""
    add_config(parser)
    parser.add_argument('checkpoint', help='base or full checkpoint')
    parser.add_argument('out', help='file to write, .onnx or .pt2')
    parser.add_argument(
        '--members', nargs='+', help='member files on top of the base')
    parser.add_argument(
        '--scores', nargs='+', help='maps to put out (default: all)')
    parser.add_argument(
        '--size', type=int, nargs=2, default=(128, 256),
        metavar=('HEIGHT', 'WIDTH'), help='image to trace with; any will do')
    parser.add_argument(
        '--draws-per-pass', type=int, help='networks in one batch (default: '
        'all); fewer need less memory and make a larger graph')
    parser.add_argument(
        '--overwrite', action='store_true', help='replace what exists')


def run(args: argparse.Namespace) -> None:
    """Run ``abnn onnx``."""
    if not args.out.endswith(('.onnx', '.pt2')):
        raise ValueError(f'{args.out} must end in .onnx or .pt2.')
    if Path(args.out).exists() and not args.overwrite:
        raise FileExistsError(f'{args.out} exists; add --overwrite to replace '
                              'it, or choose another name.')
    if args.out.endswith('.onnx'):
        # Before the model is traced, which takes long.
        check_packages()
    cfg = read_config(args)
    inferencer = ABNNInferencer(
        cfg, args.checkpoint, args.members, 'cpu', args.scores)
    model = inferencer.model
    views = len(set(model.posterior.views_of(len(model.posterior))))
    print(f'Tracing {len(model.posterior)} networks with {views} views; each '
          'view is a pass through the network.', flush=True)
    program = export_program(model, args.size, args.draws_per_pass)
    if args.out.endswith('.pt2'):
        with atomic_path(args.out) as temporary:
            torch.export.save(program, temporary)
    else:
        print('Translating the graph to ONNX, and comparing onnxruntime with '
              'PyTorch; this takes longest.', flush=True)
        differences = save_onnx(program, model, args.out, dict(
            classes=inferencer.classes, palette=inferencer.palette,
            networks=len(model.posterior),
            input='uint8 [1, height, width, 3], BGR'))
        print_table('Largest difference between onnxruntime and PyTorch', [
            dict(output=name, difference=f'{value:.1e}')
            for name, value in differences.items()])
    print(f'{len(model.posterior)} networks in {args.out}.')
