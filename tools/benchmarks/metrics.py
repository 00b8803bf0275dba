"""Cost of all metrics, against collecting all scores for scikit-learn.

Both ways get the same synthetic predictions and compute the same numbers.
Each runs in a process of its own, so that peak memory is its own.
"""
import argparse
import time
from collections import defaultdict
from contextlib import contextmanager

import torch

from benchmarks import naive_metrics as naive
from benchmarks.memory import free_mb, in_process, peak_resident_mb, reset_peak
from benchmarks.naive_metrics import SCORES

# What the obvious way needs for a pixel: collected arrays, and the sorted
# copies and indices of scikit-learn.
NAIVE_BYTES_PER_PIXEL = 80


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``tools/benchmark.py metrics``."""
    parser.add_argument(
        '--pixels', type=float, default=1e8, help='pixels in all images')
    parser.add_argument('--height', type=int, default=1024)
    parser.add_argument('--width', type=int, default=2048)
    parser.add_argument('--classes', type=int, default=15)
    parser.add_argument(
        '--ood-share', type=float, default=0.002, help='share of OOD pixels')
    parser.add_argument(
        '--naive-pixels',
        type=float,
        help='run the obvious way on fewer pixels and extrapolate linearly, '
        'which flatters it; by default as many as memory allows')
    parser.add_argument(
        '--threads',
        type=int,
        default=1,
        help='of torch; scikit-learn has one. Defaults to 1')


def run(args: argparse.Namespace) -> dict:
    """Measure; the result is ready for JSON."""
    size = args.height * args.width
    # Five images at least: memory settles when histograms begin to merge.
    few_images = max(5, round(args.pixels / size / 10))
    images = 10 * few_images
    naive_images = _naive_images(args, images, size)
    few = in_process(_run_metrics, args, few_images)
    many = in_process(_run_metrics, args, images)
    obvious = in_process(_run_naive, args, naive_images)
    naive_seconds = obvious['seconds'] * images / naive_images
    result = dict(
        speedup=naive_seconds / many['seconds'],
        pixels_per_second=images * size / many['seconds'],
        peak_mb=few['peak_mb'],
        peak_mb_10x=many['peak_mb'],
        seconds_per_image=many['seconds'] / images,
        pixels=images * size,
        images=images,
        images_of_peak_mb=few_images,
        image_size=[args.height, args.width],
        classes=args.classes,
        ood_share=args.ood_share,
        seconds=many['seconds'],
        seconds_by_metric=many['parts'],
        naive_seconds=naive_seconds,
        naive_seconds_by_metric=obvious['parts'],
        naive_images=naive_images,
        naive_extrapolated=naive_images != images,
        naive_peak_mb=obvious['peak_mb'],
        scores=list(SCORES),
        threads=args.threads)
    if naive_images == images:
        result['largest_difference'] = max(
            abs(many['values'][name] - value)
            for name, value in obvious['values'].items())
    return result


def _naive_images(args: argparse.Namespace, images: int, size: int) -> int:
    if args.naive_pixels:
        return min(images, max(1, round(args.naive_pixels / size)))
    allowed = int(free_mb() * 2**20 / NAIVE_BYTES_PER_PIXEL / size)
    return images if allowed >= images else max(1, min(allowed, images // 10))


def _samples(args: argparse.Namespace, images: int):
    """The same two predictions again and again: making them is not measured,
    holding them is."""
    made = [_make_sample(args, seed) for seed in range(2)]
    reset_peak()
    for index in range(images):
        yield made[index % len(made)]


def _make_sample(args: argparse.Namespace, seed: int) -> dict:
    generator = torch.Generator().manual_seed(seed)
    shape = args.height, args.width

    def rand(*shape):
        return torch.rand(*shape, generator=generator)

    coarse = torch.randn(1, args.classes, 32, 64, generator=generator)
    logits = 6 * torch.nn.functional.interpolate(
        coarse, shape, mode='bilinear')[0]
    logits += torch.randn(logits.shape, generator=generator)
    anomaly = (rand(1, *shape) < args.ood_share).to(torch.uint8)
    logits *= 1 - 0.5 * anomaly
    prob = logits.softmax(0)
    anomaly[rand(1, *shape) < 0.03] = 255
    chance = (rand(1, *shape) * args.classes).long()
    labels = torch.where(
        rand(1, *shape) < 0.8, prob.argmax(0, keepdim=True), chance)
    labels[anomaly > 0] = 255
    return dict(
        img_path=f'{seed}.png',
        seg_logits=dict(data=logits.log_softmax(0)),
        pred_sem_seg=dict(data=prob.argmax(0, keepdim=True)),
        gt_sem_seg=dict(data=labels),
        gt_anomaly=dict(data=anomaly),
        uncertainty={
            'msp': 1 - prob.amax(0, keepdim=True),
            'entropy': torch.special.entr(prob).sum(0, keepdim=True),
            'mutual_information': (1 - prob.amax(0, keepdim=True))**2 *
            rand(1, *shape)
        })


class _Stopwatch:

    def __init__(self):
        self.parts = defaultdict(float)

    @contextmanager
    def time(self, part: str):
        start = time.perf_counter()
        yield
        self.parts[part] += time.perf_counter() - start

    def report(self, values: dict) -> dict:
        return dict(
            seconds=sum(self.parts.values()),
            parts=dict(self.parts),
            values=values,
            peak_mb=peak_resident_mb())


def _run_metrics(args: argparse.Namespace, images: int) -> dict:
    from abnn_mmseg.evaluation import (
        AnomalyMetric,
        CalibrationMetric,
        SelectiveMetric,
    )
    torch.set_num_threads(args.threads)
    watch, values = _Stopwatch(), {}
    metrics = [AnomalyMetric(SCORES), CalibrationMetric(),
               SelectiveMetric()]
    for sample in _samples(args, images):
        for metric in metrics:
            with watch.time(metric.prefix):
                metric.process(None, [sample])
    for metric in metrics:
        with watch.time(metric.prefix):
            values.update(metric.evaluate(images))
    return watch.report(values)


def _run_naive(args: argparse.Namespace, images: int) -> dict:
    """Collect arrays of all pixels; scikit-learn and numpy do the rest."""
    torch.set_num_threads(args.threads)
    watch, values = _Stopwatch(), {}
    collected: dict[str, list] = defaultdict(list)
    per_image: dict[str, list] = defaultdict(list)
    for sample in _samples(args, images):
        with watch.time('ood'):
            naive.collect_anomaly(sample, collected, per_image)
        with watch.time('cal'):
            naive.collect_calibration(sample, collected)
    with watch.time('ood'):
        values.update(naive.anomaly(collected, per_image))
    with watch.time('cal'):
        values.update(naive.calibration(collected))
    with watch.time('sel'):
        values.update(naive.selective(collected))
    return watch.report(values)
