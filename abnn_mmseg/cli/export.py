"""Export predictions and uncertainty maps of images to files or a page."""
import argparse
import time
from pathlib import Path

from mmengine.dist import is_main_process

from abnn_mmseg.engine.launch import join_processes
from abnn_mmseg.export import ABNNInferencer, export_maps
from abnn_mmseg.export.formats import FORMATS
from abnn_mmseg.utils.arguments import add_config, add_launcher, read_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``abnn export``."""
    add_config(parser)
    parser.add_argument('checkpoint', help='base or full checkpoint')
    parser.add_argument(
        'input', help='image, folder, glob or video; or test, val, train: '
        "the config's dataset, with its ground truth")
    parser.add_argument('out', help='output folder')
    parser.add_argument(
        '--members', nargs='+', help='member files on top of the base')
    parser.add_argument(
        '--format', nargs='+', default=['npy', 'gallery'],
        help=f'any of {", ".join(FORMATS)} (default: npy gallery)')
    parser.add_argument(
        '--scores', nargs='+', help='maps to write (default: all)')
    parser.add_argument('--limit', type=int, help='only the first images')
    parser.add_argument(
        '--batch-size', type=int, default=1,
        help='images, or tiles, in one pass')
    parser.add_argument(
        '--probability', action='store_true',
        help='put the mean probability of all classes into the npz')
    parser.add_argument(
        '--tile', type=int, help='for large images: predict tiles of this '
        'height and width, one after the other, from sliding windows')
    parser.add_argument(
        '--scale', nargs=2, type=float, metavar=('LOW', 'HIGH'),
        help='range of the colours of pictures')
    parser.add_argument(
        '--threshold', type=float, help='from this value on a pixel is an '
        'anomaly (default: as stored with the members)')
    parser.add_argument(
        '--shard', help='3/16: only the third of 16 parts of the images, for '
        'job arrays without a launcher')
    parser.add_argument(
        '--video', default='overlay', choices=('overlay', 'side'),
        help='what the frames of a video show (default: overlay)')
    parser.add_argument(
        '--keep', type=float, help='share of the pixels of an image that '
        'pseudo-labels keep (default: those below the threshold)')
    parser.add_argument(
        '--min-area', type=int, default=50,
        help='leave out regions with fewer pixels (default: 50)')
    parser.add_argument('--dtype', default='float32', help='float16 halves')
    parser.add_argument(
        '--title', default='Uncertainty maps', help='title of the page')
    parser.add_argument(
        '--method', default='ABNN', help='name in the hdf5 layout')
    parser.add_argument(
        '--dataset', default='AnomalyTrack-all',
        help='name in the hdf5 layout, such as ObstacleTrack-all')
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument(
        '--resume', action='store_true', help='skip what is complete')
    existing.add_argument(
        '--overwrite', action='store_true', help='replace what exists')
    parser.add_argument('--device', help='such as cpu or cuda:0')
    add_launcher(parser)


def run(args: argparse.Namespace) -> None:
    """Run ``abnn export``."""
    cfg = read_config(args)
    join_processes(cfg)
    inferencer = ABNNInferencer(
        cfg, args.checkpoint, args.members, args.device, args.scores)
    settings = dict(
        scale=args.scale, threshold=args.threshold, dtype=args.dtype,
        keep=args.keep, video=args.video, min_area=args.min_area,
        title=args.title, method=args.method, dataset=args.dataset,
        resume=args.resume, overwrite=args.overwrite)
    start = time.monotonic()
    done = export_maps(inferencer, args.input, args.out, args.format,
                       args.limit, args.batch_size, args.probability,
                       args.tile, args.shard, **settings)
    if is_main_process():
        skipped = f', {done.skipped} were complete' if done.skipped else ''
        print(f'{done.written} images written to {args.out}{skipped}.')
        seconds = time.monotonic() - start
        if done.written:
            print(f'{done.written / seconds:.2f} frames per second, reading '
                  'and writing included.')
        page = Path(args.out) / 'gallery' / 'index.html'
        if page.is_file():
            print(f'Page: {page}')
