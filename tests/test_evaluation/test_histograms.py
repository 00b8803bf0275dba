import numpy as np
import pytest
import torch

from abnn_mmseg.evaluation.histograms import ScoreHistogram, keys_of, scores_of
from benchmarks.accuracy import CASES, errors

EXTREMES = [
    -np.inf, -3e38, -1.5, -1, -0.75, -0.5, -1e-40, 0, 1e-45, 1e-38, 0.3,
    0.5, 0.5000001, 0.9999999, 1, 1.0000001, 2, 3e38, np.inf
]


def histogram(scores, labels, **kwargs):
    return ScoreHistogram.from_scores(
        torch.as_tensor(scores), torch.as_tensor(labels), **kwargs)


def same(one, other):
    return (one.level == other.level and torch.equal(one.low, other.low)
            and torch.equal(one.high, other.high)
            and torch.equal(one.counts, other.counts))


def test_keys_have_the_order_of_scores():
    keys = keys_of(torch.tensor(EXTREMES))
    assert (keys[1:] > keys[:-1]).all()
    assert keys_of(torch.tensor([-0.])) == keys_of(torch.tensor([0.]))


def test_keys_give_their_scores_back():
    scores = torch.cat([torch.tensor(EXTREMES), torch.randn(1000) * 2])
    scores = scores.sort().values
    assert np.array_equal(scores_of(keys_of(scores)), scores.double().numpy())


@pytest.mark.parametrize('max_bins', [1, 7, 100, 10**6])
def test_merging_parts_equals_counting_all_at_once(max_bins):
    rng = np.random.default_rng(max_bins)
    scores = (rng.normal(size=5000)**5).astype(np.float32)
    scores[::7] = 0.25
    labels = rng.integers(0, 3, 5000)
    whole = histogram(scores, labels, num_labels=3, max_bins=max_bins)
    cuts = np.sort(rng.integers(0, 5000, 6))
    parts = [
        histogram(s, y, num_labels=3, max_bins=max_bins)
        for s, y in zip(np.split(scores, cuts), np.split(labels, cuts))
    ]
    for order in (parts, parts[::-1]):
        left = order[0]
        for part in order[1:]:
            left = left.merge(part)
        right = order[-1]
        for part in order[-2::-1]:
            right = part.merge(right)
        assert same(left, whole)
        assert same(right, whole)
    assert len(whole.low) <= max_bins
    assert whole.counts.sum() == 5000


def test_few_distinct_scores_are_exact():
    scores = torch.randint(0, 256, (10000, )) / 255
    whole = histogram(scores, scores > 0.5, max_bins=256)
    assert whole.level == 0
    assert torch.equal(whole.low, whole.high)
    values, counts = scores.unique(return_counts=True)
    assert np.array_equal(scores_of(whole.low), values.double().numpy())
    assert torch.equal(whole.counts.sum(1), counts)


def test_an_empty_histogram_merges():
    empty = histogram(torch.zeros(0), torch.zeros(0, dtype=torch.long))
    full = histogram(torch.rand(9), torch.ones(9, dtype=torch.long))
    assert same(empty.merge(full), full)
    assert same(full.merge(empty), full)
    assert len(empty.merge(empty).low) == 0


@pytest.mark.parametrize('ood', [0.002, 0.3])
@pytest.mark.parametrize('case', CASES)
def test_values_are_those_of_scikit_learn(case, ood):
    """`tools/benchmark.py accuracy` does the same on 10^7 pixels."""
    found = errors(case, ood, pixels=200_000, images=3, max_bins=2**16)
    assert max(found.values()) < 1e-4
