"""Whether promises hold: random splits of images, and drives left out.

Every method predicts every image once. The histograms of an image are kept,
so that an interrupted run goes on, and so that splits cost nothing.
"""
import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope

from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.evaluation.risks import images_needed
from abnn_mmseg.models.segmentor import BayesianSegmentor
from benchmarks.guarantee_images import SCORES, Images
from benchmarks.guarantee_splits import (
    Promise,
    coverage,
    false_alarms,
    label_sets,
    misses,
    size_ratio,
    split_risks,
    transferred,
)
from benchmarks.plots import plot_guarantees

# A drive that training images are of, and one that they are not of.
SETS = {
    '0016E5': dict(split='val'),
    'Seq05VD': dict(split='test', drives=['Seq05VD']),
}
VIEWS = dict(flips=('horizontal', ), scales=(0.75, ))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``tools/benchmark.py guarantees``."""
    parser.add_argument(
        '--config', default='configs/abnn_deeplabv3plus_camvid.py')
    parser.add_argument('--base', required=True, help='base checkpoint')
    parser.add_argument('--members', nargs='*', default=[],
                        help='member files, for ABNN')
    parser.add_argument('--student', help='file of a distilled posterior')
    parser.add_argument('--work-dir', default='work_dirs/guarantees',
                        help='where the histograms are kept')
    parser.add_argument('--images', type=int,
                        help='images of each drive, evenly spread')
    parser.add_argument(
        '--size', type=int, nargs=2, metavar=('WIDTH', 'HEIGHT'),
        help='shrink the images that the network sees; labels keep theirs')
    parser.add_argument('--limit', type=int, help='predict at most this many '
                        'new images (0: none), and count finished ones')
    parser.add_argument('--splits', type=int, default=200)
    parser.add_argument('--levels', type=float, nargs='+',
                        default=(0.1, 0.05))
    parser.add_argument('--score', default='entropy', choices=SCORES)
    parser.add_argument('--plot', help='PNG to draw')


def methods(cfg: Config, members: list, student: Optional[str]
            ) -> dict[str, dict]:
    """Configs of the posteriors that are compared, by name."""
    found = dict(
        base=dict(type='DeterministicPosterior'),
        TTA=dict(type='DeterministicPosterior', precision='bfloat16',
                 views=dict(flips=('horizontal', ))))
    if members:
        found['ABNN'] = dict(
            cfg.model.posterior, networks=4, views=VIEWS,
            precision='bfloat16')
    if student:
        found['student'] = dict(type='DistilledPosterior', student=student)
    return found


def collect(args: argparse.Namespace, cfg: Config, images: Images,
            chosen: dict[str, dict]) -> None:
    """Predict what is missing."""
    if args.limit == 0:
        return
    torch.set_num_threads(1)
    model: BayesianSegmentor = build_segmentor(cfg, args.base)
    images.collect(model, chosen, args.members, args.limit)


def run(args: argparse.Namespace) -> dict:
    """Predict, split, count."""
    cfg = Config.fromfile(args.config)
    init_default_scope('mmseg')
    folder = Path(args.work_dir)
    if args.size:
        # Before the labels are loaded, which are not to be resized.
        cfg.test_dataloader.dataset.pipeline.insert(1, dict(
            type='Resize', scale=tuple(args.size), keep_ratio=False))
        folder /= 'x'.join(map(str, args.size))
    images = Images(cfg, SETS, folder, args.images)
    chosen = methods(cfg, args.members, args.student)
    collect(args, cfg, images, chosen)
    found = images.read({
        name: images.method_folder(name, posterior, args.members)
        for name, posterior in chosen.items()})
    home, away = SETS
    known, new = found[home], found[away]
    result = dict(
        images={name: len(next(iter(by_method.values()))['true'])
                for name, by_method in found.items()},
        size=args.size and list(args.size), splits=args.splits,
        score=args.score,
        random_splits=[row for name in known for row in split_rows(
            args, home, name, known[name])] + [
                row for name in new for row in split_rows(
                    args, away, name, new[name])],
        other_drive=[row for name in known for row in transfer_rows(
            args, home, name, known[name], new[name])],
        set_sizes=[
            dict(drive=drive, method=name, level=level, **size_ratio(
                by_method[name], by_method['base'], 1 - level))
            for drive, by_method in found.items() for name in by_method
            for level in args.levels])
    if args.plot:
        plot_guarantees(result, args.levels[0], args.plot)
    return result


def promises(args: argparse.Namespace, arrays: dict
             ) -> Iterator[tuple[str, float, Promise]]:
    """Name, level and promise of each that the images can support."""
    for level in args.levels:
        yield 'label-set', level, label_sets(arrays, level)
        yield 'coverage 0.9', level, coverage(arrays, level, 0.9)
        yield 'miss', level, misses(arrays, level, args.score)
        for part in (0., 0.1):
            yield f'false-alarm {part:g}', level, false_alarms(
                arrays, level, args.score, part)


def split_rows(args: argparse.Namespace, drive: str, method: str,
               arrays: dict) -> Iterator[dict]:
    """Mean risk of random splits, which shall not exceed the level."""
    for risk, level, promise in promises(args, arrays):
        if len(promise.loss) // 2 < images_needed(level):
            continue
        risks, prices = split_risks(promise, args.splits)
        error = float(risks.std(ddof=1) / len(risks)**0.5)
        yield dict(
            drive=drive, method=method, risk=risk, level=level,
            measured=float(risks.mean()), error=error,
            holds=bool(risks.mean() <= level + 2 * error),
            price=float(prices.mean()))


def transfer_rows(args: argparse.Namespace, drive: str, method: str,
                  arrays: dict, new: dict) -> Iterator[dict]:
    """Risk on the other drive, where nothing is promised."""
    for (risk, level, promise), (*_, other) in zip(
            promises(args, arrays), promises(args, new)):
        if len(promise.loss) < images_needed(level) or not len(other.loss):
            continue
        measured, price = transferred(promise, other)
        yield dict(calibrated_on=drive, method=method, risk=risk, level=level,
                   measured=measured, price=price)
