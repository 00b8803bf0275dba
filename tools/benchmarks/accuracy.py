"""Error of the anomaly metrics against scikit-learn on all pixels.

The metrics stream the scores image by image through histograms; scikit-learn
gets all scores at once. Cases are those that histograms get wrong: ties, tiny
shares of positives, scores next to 0 or 1, scores without bounds.
"""
import argparse

import numpy as np
import torch

from abnn_mmseg.evaluation.anomaly import MEASURES


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


# Of a normal variable g, higher for positives, and a uniform one u.
CASES = dict(
    normal=lambda g, u: g,
    energy=lambda g, u: 2 * g - 12,
    far_from_zero=lambda g, u: g + 1000,
    heavy_tails=lambda g, u: np.sign(g) * np.abs(g)**9,
    near_0=lambda g, u: 10**(3 * g - 10),
    near_1=lambda g, u: 1 - 10**(1.5 * -g - 4),
    near_0_and_1=lambda g, u: _sigmoid(6 * g),
    eight_bit=lambda g, u: np.round(_sigmoid(6 * g) * 255) / 255,
    half_zero=lambda g, u: np.where(u < .5, 0, _sigmoid(6 * g)),
    half_rounded=lambda g, u: np.where(u < .5, np.round(g, 1), g),
    constant=lambda g, u: 0 * g + 0.7)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``tools/benchmark.py accuracy``."""
    parser.add_argument('--pixels', type=float, default=1e7)
    parser.add_argument(
        '--images', type=int, default=8, help='to stream the pixels in')
    parser.add_argument(
        '--ood-share', type=float, nargs='+', default=[0.002, 0.3])
    parser.add_argument(
        '--cases', nargs='+', default=list(CASES), choices=list(CASES))


def run(args: argparse.Namespace) -> dict:
    """Errors as fractions; the result is ready for JSON."""
    rows = [
        dict(case=case, ood_share=share,
             **errors(case, share, int(args.pixels), args.images))
        for case in args.cases for share in args.ood_share
    ]
    return dict(
        largest_error=max(row[name] for row in rows for name in MEASURES),
        pixels=int(args.pixels), images=args.images, errors=rows)


def errors(case: str, ood_share: float, pixels: int, images: int,
           **settings) -> dict:
    """Absolute differences of the three values, all in 0 .. 1."""
    from abnn_mmseg.evaluation import AnomalyMetric
    rng = np.random.default_rng(0)
    labels = rng.random(pixels) < ood_share
    normal = rng.normal(size=pixels) + 1.5 * labels
    scores = CASES[case](normal, rng.random(pixels)).astype(np.float32)
    metric = AnomalyMetric('entropy', 'pooled', **settings)
    for part in np.array_split(np.arange(pixels), images):
        metric.process(None, [dict(
            gt_anomaly=dict(data=torch.from_numpy(labels[part])[None, None]),
            uncertainty=dict(
                entropy=torch.from_numpy(scores[part])[None, None]))])
    found = metric.evaluate(images)
    return {
        name: abs(found[f'ood/pooled/entropy/{name}'] / 100 - value)
        for name, value in zip(MEASURES, _scikit_learn(scores, labels))
    }


def _scikit_learn(scores: np.ndarray, labels: np.ndarray) -> tuple:
    from sklearn import metrics
    fpr, tpr, _ = metrics.roc_curve(labels, scores, drop_intermediate=False)
    return (metrics.roc_auc_score(labels, scores),
            metrics.average_precision_score(labels, scores),
            fpr[np.argmax(tpr >= .95)])
