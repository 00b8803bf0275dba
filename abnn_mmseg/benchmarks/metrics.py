"""Cost of all metrics, against collecting all scores for scikit-learn.

Both ways get the same synthetic predictions and compute the same numbers.
Each runs in a process of its own, so that peak memory is its own.
"""
import argparse
import multiprocessing
import os
import resource
import time
from collections import defaultdict
from contextlib import contextmanager

import numpy as np
import torch

# What the obvious way needs for a pixel: collected arrays, and the sorted
# copies and indices of scikit-learn.
NAIVE_BYTES_PER_PIXEL = 80
SCORE = 'entropy'


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


def run(args: argparse.Namespace) -> dict:
    """Measure; the result is ready for JSON."""
    size = args.height * args.width
    images = max(10, round(args.pixels / size))
    naive_images = _naive_images(args, images, size)
    few = _in_process(_run_metrics, args, images // 10)
    many = _in_process(_run_metrics, args, images)
    naive = _in_process(_run_naive, args, naive_images)
    naive_seconds = naive['seconds'] * images / naive_images
    result = dict(
        speedup=naive_seconds / many['seconds'],
        pixels_per_second=images * size / many['seconds'],
        peak_mb=few['peak_mb'],
        peak_mb_10x=many['peak_mb'],
        seconds_per_image=many['seconds'] / images,
        pixels=images * size,
        images=images,
        images_of_peak_mb=images // 10,
        image_size=[args.height, args.width],
        classes=args.classes,
        ood_share=args.ood_share,
        seconds=many['seconds'],
        seconds_by_metric=many['parts'],
        naive_seconds=naive_seconds,
        naive_seconds_by_metric=naive['parts'],
        naive_images=naive_images,
        naive_extrapolated=naive_images != images,
        naive_peak_mb=naive['peak_mb'],
        threads=torch.get_num_threads())
    if naive_images == images:
        result['largest_difference'] = max(
            abs(many['values'][name] - value)
            for name, value in naive['values'].items())
    return result


def _naive_images(args: argparse.Namespace, images: int, size: int) -> int:
    if args.naive_pixels:
        return min(images, max(1, round(args.naive_pixels / size)))
    try:
        free = os.sysconf('SC_AVPHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
    except (ValueError, OSError):  # not on this system
        free = 0
    allowed = int(free / NAIVE_BYTES_PER_PIXEL / size)
    return images if allowed >= images else max(1, min(allowed, images // 10))


def _in_process(function, args: argparse.Namespace, images: int) -> dict:
    context = multiprocessing.get_context('spawn')
    with context.Pool(1) as pool:
        return pool.apply(function, (args, images))


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _samples(args: argparse.Namespace, images: int):
    """The same few predictions again and again: making them is not timed."""
    made = [_make_sample(args, seed) for seed in range(min(images, 2))]
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
        gt_sem_seg=dict(data=labels),
        gt_anomaly=dict(data=anomaly),
        uncertainty={
            SCORE: torch.special.entr(prob).sum(0, keepdim=True),
            'msp': 1 - prob.amax(0, keepdim=True)
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
            peak_mb=_peak_mb())


def _run_metrics(args: argparse.Namespace, images: int) -> dict:
    from abnn_mmseg.evaluation import (AnomalyMetric, CalibrationMetric,
                                       SelectiveMetric)
    watch, values = _Stopwatch(), {}
    metrics = [AnomalyMetric((SCORE, )), CalibrationMetric(),
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
    watch, values = _Stopwatch(), {}
    collected, per_image = defaultdict(list), defaultdict(list)
    for sample in _samples(args, images):
        with watch.time('ood'):
            scores = sample['uncertainty'][SCORE].numpy().ravel()
            labels = sample['gt_anomaly']['data'].numpy().ravel()
            per_image['per_image'].append(_detection(scores, labels == 1))
            per_image['muad'].append(_detection(scores, labels > 0))
            collected['scores'].append(scores[labels < 2])
            collected['ood'].append(labels[labels < 2])
        with watch.time('cal'):
            _collect_calibration(sample, collected)
    with watch.time('ood'):
        pooled = _detection(
            np.concatenate(collected.pop('scores')),
            np.concatenate(collected.pop('ood')))
        named = dict(pooled=pooled)
        named.update({k: np.mean(v, 0) for k, v in per_image.items()})
        values.update({
            f'ood/{protocol}/{SCORE}/{name}': 100 * value
            for protocol, three in named.items()
            for name, value in zip(('AUROC', 'AUPR', 'FPR95'), three)
        })
    with watch.time('cal'):
        values.update(_calibration(collected))
    with watch.time('sel'):
        values.update(_selective(collected))
    return watch.report(values)


def _detection(scores: np.ndarray, labels: np.ndarray) -> tuple:
    from sklearn import metrics
    fpr, tpr, _ = metrics.roc_curve(labels, scores)
    return (metrics.roc_auc_score(labels, scores),
            metrics.average_precision_score(labels, scores),
            fpr[np.argmax(tpr >= 0.95)])


def _collect_calibration(sample: dict, collected: dict) -> None:
    prob = sample['seg_logits']['data'].softmax(0).flatten(1).numpy()
    labels = sample['gt_sem_seg']['data'].numpy().ravel()
    known = labels < 255
    prob, labels = prob[:, known], labels[known]
    true = np.take_along_axis(prob, labels[None], 0)[0]
    collected['nll'].append(-np.log(true))
    collected['brier'].append((prob**2).sum(0) - 2 * true + 1)
    collected['confidence'].append(prob.max(0))
    collected['right'].append(prob.argmax(0) == labels)
    bins = np.ceil(prob * 15).astype(int).clip(1) - 1
    collected['classes'].append([
        np.bincount(b, (labels == c) - p, 15)
        for c, (b, p) in enumerate(zip(bins, prob))
    ])


def _calibration(collected: dict) -> dict:
    confidence = np.concatenate(collected['confidence'])
    right = np.concatenate(collected['right'])
    gap = right - confidence.astype(float)
    bins = np.ceil(confidence * 15).astype(int).clip(1) - 1
    sums = np.bincount(bins, gap, 15)
    equal = np.array_split(gap[np.argsort(confidence)], 15)
    classes = np.abs(np.sum(collected['classes'], 0)).sum(1) / gap.size
    return {
        'cal/pooled/ECE': 100 * np.abs(sums).sum() / gap.size,
        'cal/pooled/MCE':
        100 * np.nanmax(np.abs(sums) / np.bincount(bins, minlength=15)),
        'cal/pooled/ECE_adaptive':
        100 * sum(abs(part.sum()) for part in equal) / gap.size,
        'cal/pooled/ECE_classwise': 100 * classes.mean(),
        'cal/pooled/NLL': np.concatenate(collected['nll']).mean(),
        'cal/pooled/Brier': np.concatenate(collected['brier']).mean()
    }


def _selective(collected: dict) -> dict:
    order = np.argsort(-np.concatenate(collected['confidence']))
    wrong = ~np.concatenate(collected['right'])[order]
    risk = wrong.cumsum() / np.arange(1, wrong.size + 1)
    values = {'sel/msp/AURC': 100 * risk.mean()}
    for coverage in (0.8, 0.9, 0.95):
        last = int(np.ceil(coverage * wrong.size)) - 1
        values[f'sel/msp/risk@{100 * coverage:g}'] = 100 * risk[last]
    return values
