"""Peak memory of large images, against their size and the draws."""
import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from abnn_mmseg.export import export_maps
from abnn_mmseg.utils.console import progress
from benchmarks.export import make_inferencer
from benchmarks.memory import in_process, peak_resident_mb

# The demo's network at a quarter of its width: memory does not depend on how
# long a window takes.
SMALL = {
    'backbone.base_channels': 8,
    'decode_head.in_channels': 64,
    'decode_head.channels': 16,
    'decode_head.c1_in_channels': 8,
    'decode_head.c1_channels': 8
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``tools/benchmark.py large``."""
    parser.add_argument(
        '--config', default='configs/abnn_deeplabv3plus_muad-sketch.py')
    parser.add_argument(
        '--checkpoint', help='trained weights of the whole network '
        '(default: random ones, of a network a quarter as wide)')
    parser.add_argument('--sides', type=int, nargs='+',
                        default=(2000, 4000, 8000))
    parser.add_argument('--draws', type=int, nargs='+', default=(2, 8),
                        help='more than one: with the smallest side only')
    parser.add_argument('--tile', type=int, default=1024)
    parser.add_argument('--crop', type=int, default=512)
    parser.add_argument('--stride', type=int, default=384)
    parser.add_argument('--geotiff', action='store_true',
                        help='GeoTIFF in and out, instead of npy')
    parser.add_argument('--device', default='cpu')


def run(args: argparse.Namespace) -> dict:
    """Peak memory of each case, in a process of its own.

    The growths are of what is used on top of the idle process; that of the
    side is between the two largest, as an image of few tiles has none with
    neighbours all around.
    """
    sides = sorted(args.sides)
    cases = [(sides[0], draws) for draws in sorted(args.draws)]
    cases += [(side, cases[0][1]) for side in sides[1:]]
    rows = [in_process(_measure, args, *case)
            for case in progress(cases, 'Large images', len(cases))]
    by_draws, by_side = rows[:len(args.draws)], [
        rows[0], *rows[len(args.draws):]]
    return dict(
        memory_growth_draws=by_draws[-1]['used_mb'] / by_draws[0]['used_mb'],
        memory_growth_side=by_side[-1]['used_mb'] / by_side[-2:][0]['used_mb'],
        tile=args.tile, crop=args.crop, stride=args.stride,
        device=args.device, rows=rows)


def _measure(args: argparse.Namespace, side: int,
             draws: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / ('image.tif' if args.geotiff else 'image.npy')
        (_write_raster if args.geotiff else _write_image)(image, side)
        inferencer = make_inferencer(
            argparse.Namespace(**{**vars(args), 'draws': draws}), folder,
            test_cfg=dict(mode='slide', crop_size=(args.crop, args.crop),
                          stride=(args.stride, args.stride)),
            **({} if args.checkpoint else SMALL))
        idle = peak_resident_mb()
        start = time.perf_counter()
        # Images below the output folder are taken for maps.
        export_maps(inferencer, image, Path(folder) / 'out',
                    ['geotiff' if args.geotiff else 'npy'], tile=args.tile)
        peak = peak_resident_mb()
        return dict(
            side=side, draws=draws, peak_mb=peak,
            used_mb=max(peak - idle, 1.),  # less is noise
            seconds=time.perf_counter() - start,
            # What one array of all class probabilities would take.
            probability_mb=4 * inferencer.model.num_classes * side**2 / 2**20)


def _write_image(path: Path, side: int) -> None:
    """Random pixels, in strips: a whole image would count as memory."""
    header = dict(descr='|u1', fortran_order=False, shape=(side, side, 3))
    rng = np.random.default_rng(0)
    with open(path, 'wb') as file:
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(side):
            file.write(rng.integers(0, 255, 3 * side, np.uint8).tobytes())


def _write_raster(path: Path, side: int) -> None:
    """The same as a GeoTIFF of blocks."""
    import rasterio
    from rasterio.windows import Window
    rng = np.random.default_rng(0)
    with rasterio.Env(GDAL_CACHEMAX=64), rasterio.open(
            path, 'w', driver='GTiff', count=3, height=side, width=side,
            dtype='uint8', tiled=True, blockxsize=256, blockysize=256,
            crs='EPSG:32633', photometric='RGB', interleave='pixel',
            transform=rasterio.transform.from_origin(0, 0, 0.5, 0.5)) as file:
        for top in range(0, side, 256):
            rows = min(256, side - top)
            file.write(rng.integers(0, 255, (3, rows, side), np.uint8),
                       window=Window(0, top, side, rows))
