"""Memory of an export of many small images, and how soon it resumes."""
import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Optional

import cv2
import numpy as np

from abnn_mmseg.export import export_maps
from abnn_mmseg.export.writers import CsvWriter
from benchmarks.export import make_inferencer
from benchmarks.large import SMALL
from benchmarks.memory import peak_resident_mb

# Pictures of their own; the others are links to them.
DISTINCT = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``tools/benchmark.py many``."""
    parser.add_argument(
        '--config', default='configs/abnn_deeplabv3plus_muad-sketch.py')
    parser.add_argument('--checkpoint', default=None)
    parser.add_argument('--images', type=int, default=100_000)
    parser.add_argument('--size', type=int, nargs=2, default=(32, 64))
    parser.add_argument('--draws', type=int, default=2)
    parser.add_argument('--device', default='cpu')


def run(args: argparse.Namespace) -> dict:
    """Peak memory after each quarter of the images, then the resume."""
    with tempfile.TemporaryDirectory() as folder:
        images = _write_images(Path(folder) / 'in', args.images, args.size)
        inferencer = make_inferencer(args, folder, **SMALL)
        inferencer.model.scores = ('entropy', )
        rows: list[dict] = []
        save, written = CsvWriter.save, [0]

        def counted(self, result):
            save(self, result)
            written[0] += 1
            if written[0] % max(1, args.images // 4) == 0:
                rows.append(dict(
                    images=written[0], peak_mb=peak_resident_mb()))

        CsvWriter.save = counted  # type: ignore[method-assign]
        try:
            start = time.perf_counter()
            _export(inferencer, images, folder)
            seconds = time.perf_counter() - start
        finally:
            CsvWriter.save = save  # type: ignore[method-assign]
        start = time.perf_counter()
        done = _export(inferencer, images, folder, resume=True)
        return dict(
            images=args.images, seconds=seconds,
            growth_mb=rows[-1]['peak_mb'] - rows[0]['peak_mb'],
            resume_seconds=time.perf_counter() - start,
            resumed=done.skipped, rows=rows)


def _export(inferencer, images: Path, folder: str,
            resume: Optional[bool] = False):
    return export_maps(inferencer, images, Path(folder) / 'out',
                       ['npy', 'csv'], batch_size=16, resume=resume)


def _write_images(folder: Path, count: int, size) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(count):
        path = folder / f'{number:06d}.png'
        if number < DISTINCT:
            cv2.imwrite(str(path), rng.integers(
                0, 255, (*size, 3), np.uint8))
        else:
            os.link(folder / f'{number % DISTINCT:06d}.png', path)
    return folder
