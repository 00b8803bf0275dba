"""Splits of images into calibration and test, from their histograms.

A threshold is the number of a bin, j: values in bin j and above are in the
set, or are flagged. The bins are fixed, so the promises hold for them too.
"""
import math
from collections.abc import Iterator
from typing import Callable, NamedTuple

import numpy as np

from abnn_mmseg.evaluation.risks import exact
from benchmarks.guarantee_images import BINS

Arrays = dict[str, np.ndarray]
# From the numbers of the calibration images to a threshold.
Choice = Callable[[np.ndarray], int]


class Promise(NamedTuple):
    """One kind of risk on some images.

    Args:
        loss: Of each image at each threshold, ``[images, BINS + 1]``.
        choose: From calibration images' losses to the threshold.
        price: What the threshold costs, of each image at each threshold.
    """
    loss: np.ndarray
    choose: Choice
    price: np.ndarray


def below(counts: np.ndarray) -> np.ndarray:
    """Share of an image's values below each threshold, ``[n, BINS + 1]``."""
    total = counts.sum(1, keepdims=True)
    cumulated = np.zeros((len(counts), BINS + 1))
    np.cumsum(counts, 1, out=cumulated[:, 1:])
    return cumulated / np.maximum(total, 1)


def set_sizes(arrays: Arrays) -> np.ndarray:
    """Mean number of classes in the sets, ``[n, BINS + 1]``."""
    pixels = arrays['true'].sum(1, keepdims=True)
    classes = arrays['every'].sum(1, keepdims=True) / pixels
    return classes * (1 - below(arrays['every']))


def controlled(level: float) -> Choice:
    """Conformal risk control of the mean loss."""

    def choose(loss: np.ndarray) -> int:
        count = len(loss)
        bound = float(exact(level) * (count + 1) - 1)
        # The loss never falls, so the last one that is low enough.
        return int((loss.sum(0) <= bound + 1e-9).sum()) - 1

    return choose


def label_sets(arrays: Arrays, level: float) -> Promise:
    return Promise(below(arrays['true']), controlled(level),
                   set_sizes(arrays))


def coverage(arrays: Arrays, level: float, part: float) -> Promise:
    """P(an image's coverage >= part) >= 1 - level."""
    short = (1 - below(arrays['true']) < part - 1e-12).astype(float)
    return Promise(short, controlled(level), set_sizes(arrays))


def misses(arrays: Arrays, level: float, score: str) -> Promise:
    """Images without unknown pixels do not count. The price is the share of
    known pixels that is flagged."""
    some = arrays[f'{score} ood'].sum(1) > 0
    return Promise(below(arrays[f'{score} ood'][some]), controlled(level),
                   1 - below(arrays[f'{score} known'][some]))


def false_alarms(arrays: Arrays, level: float, score: str,
                 part: float) -> Promise:
    """The price is the share of unknown pixels that is missed."""
    flagged = 1 - below(arrays[f'{score} known'])
    raised = (flagged > part + 1e-12).astype(float)

    def choose(loss: np.ndarray) -> int:
        rank = math.ceil((len(loss) + 1) * (1 - exact(level)))
        # Of each image, the smallest threshold without an alarm.
        return int(np.sort(loss.sum(1))[rank - 1])

    return Promise(raised, choose, below(arrays[f'{score} ood']))


def splits(images: int, count: int, seed: int = 0
           ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Random halves: calibration and test images."""
    generator = np.random.default_rng(seed)
    for _ in range(count):
        order = generator.permutation(images)
        yield order[:images // 2], order[images // 2:]


def split_risks(promise: Promise, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Risk and price on the test half of each split."""
    risks, prices = [], []
    for own, others in splits(len(promise.loss), count):
        threshold = promise.choose(promise.loss[own])
        risks.append(promise.loss[others, threshold].mean())
        prices.append(promise.price[others, threshold].mean())
    return np.array(risks), np.array(prices)


def transferred(promise: Promise, new: Promise) -> tuple[float, float]:
    """Risk and price on other images than those of the calibration."""
    threshold = promise.choose(promise.loss)
    return (float(new.loss[:, threshold].mean()),
            float(new.price[:, threshold].mean()))


def sizes_at_coverage(arrays: Arrays, wanted: float,
                      weights: np.ndarray) -> np.ndarray:
    """Set size at equal coverage, for each row of weights of images.

    Between two thresholds, sets are interpolated.
    """
    covered = weights @ (1 - below(arrays['true']))
    size = weights @ set_sizes(arrays)
    return np.array([np.interp(wanted, c[::-1], s[::-1])
                     for c, s in zip(covered, size)])


def size_ratio(arrays: Arrays, reference: Arrays, wanted: float,
               count: int = 1000) -> dict[str, float]:
    """Set size against that of a reference on the same images, with a 95 %
    interval by paired bootstrap."""
    images = len(arrays['true'])
    generator = np.random.default_rng(0)
    weights = np.concatenate([
        np.full((1, images), 1 / images),
        generator.multinomial(images, np.full(images, 1 / images), count)
        / images])
    own, other = (sizes_at_coverage(a, wanted, weights)
                  for a in (arrays, reference))
    ratio = own / other
    low, high = np.quantile(ratio[1:], (0.025, 0.975))
    return dict(size=float(own[0]), ratio=float(ratio[0]), low=float(low),
                high=float(high))
