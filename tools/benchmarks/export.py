"""Cost of exporting a folder, as a ratio to the inference alone."""
import argparse
import copy
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Callable

import cv2
import numpy as np
import torch
from mmengine.config import Config

from abnn_mmseg.export import ABNNInferencer, Frames, export_maps
from abnn_mmseg.export.formats import FORMATS
from benchmarks.networks import build


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``tools/benchmark.py export``."""
    parser.add_argument(
        '--config', default='configs/abnn_deeplabv3plus_muad-sketch.py')
    parser.add_argument(
        '--checkpoint', help='trained weights (default: random ones)')
    parser.add_argument('--size', type=int, nargs=2, default=(512, 1024),
                        metavar=('HEIGHT', 'WIDTH'))
    parser.add_argument('--draws', type=int, default=8)
    parser.add_argument('--images', type=int, default=16)
    parser.add_argument('--repeats', type=int, default=3)
    parser.add_argument(
        '--format', nargs='+', default=['npy', 'overlay', 'csv', 'gallery'],
        help=f'any of {", ".join(FORMATS)}')
    parser.add_argument('--device', default='cpu')


def run(args: argparse.Namespace) -> dict:
    """Seconds of both ways, taking turns, and the share of the rest.

    The inference alone has its inputs in memory and drops its results.
    """
    with tempfile.TemporaryDirectory() as folder:
        images = write_images(Path(folder) / 'images', args.images, args.size)
        inferencer = make_inferencer(args, folder)
        loaded = [inferencer.load(frame) for frame in Frames(images)]

        def inference() -> None:
            for item in loaded:
                inferencer.predict([copy.deepcopy(item.data)])

        def export() -> None:
            export_maps(inferencer, str(images), f'{folder}/maps',
                        args.format, overwrite=True)

        seconds = _take_turns(
            dict(inference=inference, export=export), args.repeats)
    ratios = [e / i for e, i in zip(seconds['export'], seconds['inference'])]
    return dict(
        overhead=statistics.median(ratios) - 1,
        inference_s=statistics.median(seconds['inference']),
        export_s=statistics.median(seconds['export']),
        overheads=[dict(run=i, overhead=r - 1) for i, r in enumerate(ratios)],
        images=args.images, height=args.size[0], width=args.size[1],
        draws=args.draws, formats=' '.join(args.format),
        threads=torch.get_num_threads(), cores=os.cpu_count(),
        device=args.device)


def _take_turns(ways: dict[str, Callable],
                repeats: int) -> dict[str, list[float]]:
    """Seconds of each way; the first round warms up and does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats + 1):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - start)
    return {name: times[1:] for name, times in seconds.items()}


def make_inferencer(args: argparse.Namespace, folder: str,
                    **model) -> ABNNInferencer:
    """With one member's draws, and random weights if there are no others."""
    cfg = Config.fromfile(args.config)
    cfg.merge_from_dict({f'model.{key}': value
                         for key, value in model.items()})
    cfg.model.posterior.samples = args.draws
    checkpoint = args.checkpoint
    if checkpoint is None:
        checkpoint = str(Path(folder) / 'random.pth')
        torch.save(dict(state_dict=build(cfg).state_dict()), checkpoint)
    return ABNNInferencer(cfg, checkpoint, device=args.device)


def write_images(folder: Path, count: int, size) -> Path:
    """Smooth pictures: noise would be slower to read and write."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number in range(count):
        coarse = rng.integers(0, 255, (12, 24, 3), np.uint8)
        picture = cv2.resize(coarse, tuple(size[::-1]),
                             interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(folder / f'{number:04d}.png'), picture)
    return folder
