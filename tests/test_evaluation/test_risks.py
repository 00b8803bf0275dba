"""Thresholds of promises, against sorted values and closed forms."""
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from abnn_mmseg.evaluation.histograms import ScoreHistogram
from abnn_mmseg.evaluation.risks import (
    check_images,
    conformal_quantile,
    controlled_threshold,
    covering_threshold,
    exceeding_value,
    images_needed,
    share_below,
    shares,
)


def random_images(count, seed=0, ties=False):
    """Probabilities of the true class, images of different size."""
    generator = np.random.default_rng(seed)
    images = []
    for _ in range(count):
        values = generator.beta(6, 1.5, generator.integers(30, 400))
        values = values.round(1) if ties else values
        images.append(torch.from_numpy(values.astype(np.float32)))
    return images


def sorted_threshold(images, level):
    """By definition: the largest of all values whose risk is low enough."""
    n = len(images)
    level = Fraction(str(level))
    best = None
    for value in sorted({v for image in images for v in image.tolist()}):
        loss = sum(Fraction(int((image < value).sum()), len(image))
                   for image in images)
        if (loss + 1) / (n + 1) > level:
            break
        best = value
    return best


def pooled(images):
    total = shares(images[0])
    for image in images[1:]:
        total = total.merge(shares(image))
    return total


@pytest.mark.parametrize('ties', [False, True])
@pytest.mark.parametrize('level', [0.05, 0.1, 0.31])
def test_the_threshold_is_that_of_sorted_values(level, ties):
    images = random_images(25, ties=ties)
    expected = sorted_threshold(images, level)
    assert controlled_threshold(pooled(images), 25, level) == expected
    loss = np.mean([(image < expected).double().mean() for image in images])
    assert share_below(pooled(images), 25, expected) == pytest.approx(
        loss, abs=1e-9)
    assert (25 * loss + 1) / 26 <= level


def test_few_bins_are_more_careful_and_never_less():
    images = random_images(40)
    best = sorted_threshold(images, 0.1)
    coarse = None
    for image in images:
        part = shares(image)
        part = ScoreHistogram(part.low, part.high, part.counts, part.level, 16)
        coarse = part if coarse is None else coarse.merge(part)
    found = controlled_threshold(coarse, 40, 0.1)
    assert best - 0.1 < found <= best


def test_the_order_of_images_does_not_matter():
    images = random_images(30, seed=3)
    ahead = controlled_threshold(pooled(images), 30, 0.07)
    assert controlled_threshold(pooled(images[::-1]), 30, 0.07) == ahead


def test_risk_on_new_images_is_at_most_the_level():
    """The mean over many draws of calibration and test images."""
    rng = np.random.default_rng(0)
    images = random_images(400, seed=1)
    losses = []
    for _ in range(100):
        chosen = rng.permutation(400)[:41]
        threshold = controlled_threshold(
            pooled([images[i] for i in chosen[:40]]), 40, 0.1)
        losses.append((images[chosen[40]] < threshold).double().mean().item())
    error = np.std(losses) / math.sqrt(len(losses))
    assert 0.05 < np.mean(losses) <= 0.1 + 2 * error


def test_false_alarms_are_as_seldom_as_promised():
    rng = np.random.default_rng(0)
    numbers = [exceeding_value(image, 0.05) for image in random_images(300)]
    rates = []
    for _ in range(300):
        order = rng.permutation(300)
        limit = conformal_quantile([numbers[i] for i in order[:30]], 0.1)
        rates.append(np.mean([numbers[i] > limit for i in order[30:]]))
    assert 0.07 < np.mean(rates) <= 0.1 + 2 * np.std(rates) / 300**0.5


def test_quantiles_are_order_statistics():
    numbers = list(range(1, 20))
    # ceil(20 * 0.95) = 19, ceil(20 * 0.9) = 18: no rounding of 0.1 or 0.05.
    assert conformal_quantile(numbers[::-1], 0.05) == 19
    assert conformal_quantile(numbers, 0.1) == 18
    assert conformal_quantile([3.] * 9, 0.1) == 3.


def test_too_few_images_are_refused_with_the_number_it_takes():
    assert [images_needed(a) for a in (0.05, 0.1, 0.3, 0.01)] == [
        19, 9, 3, 99]
    check_images(0.05, 19)
    with pytest.raises(ValueError, match='18 images cannot support level '
                       '0.05: it takes at least 19.*level of 0.053 or more'):
        check_images(0.05, 18)
    with pytest.raises(ValueError, match='at least 19'):
        conformal_quantile([1.] * 18, 0.05)
    with pytest.raises(ValueError, match='at least 9'):
        controlled_threshold(pooled(random_images(8)), 8, 0.1)


def test_the_parts_of_an_image_are_counted_exactly():
    values = torch.arange(1., 11.)[torch.randperm(10)]
    assert covering_threshold(values, 0.9) == 2.
    assert (values >= covering_threshold(values, 0.7)).double().mean() == 0.7
    assert covering_threshold(values, 1) == 1.
    assert exceeding_value(values) == 10.
    assert exceeding_value(values, 0.1) == 9.
    assert (values > exceeding_value(values, 0.3)).double().mean() == 0.3


def test_misses_agree_with_mapie():
    """Recall of a binary segmentation is one minus the missed share."""
    control = pytest.importorskip(
        'mapie.risk_control', reason='needs the extra dev (mapie)')
    generator = np.random.default_rng(5)
    scores = generator.beta(2, 1, (30, 1, 20, 20))
    unknown = generator.random((30, 20, 20)) < 0.2
    grid = np.linspace(0, 1, 401)[:-1]
    found = control.SemanticSegmentationController(
        predict_function=lambda x: x, risk='recall', method='crc',
        target_level=0.9, predict_params=grid)
    found.calibrate(scores, unknown)
    total = pooled([
        torch.from_numpy(s[0][u].astype(np.float32))
        for s, u in zip(scores, unknown)])
    ours = controlled_threshold(total, 30, 0.1)
    theirs = float(found.best_predict_param[0])
    # They search a grid, and step back by one.
    assert theirs <= ours <= theirs + 2.01 * (grid[1] - grid[0])
