"""Statistics, scores and histograms for whatever numbers there may be."""
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from sklearn.metrics import average_precision_score, roc_auc_score

from abnn_mmseg.evaluation.curves import DetectionCurve
from abnn_mmseg.evaluation.histograms import ScoreHistogram, keys_of, scores_of
from abnn_mmseg.uncertainty import SCORES, StreamingStatistics, score_range
from abnn_mmseg.uncertainty.scores import compute_scores

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)
LOGITS = arrays(
    np.float32, array_shapes(min_dims=4, max_dims=4, max_side=4),
    elements=st.floats(-80, 80, width=32)).filter(lambda a: a.shape[1] > 1)
SCORE = st.floats(width=32, allow_nan=False)
PIXELS = st.lists(st.tuples(SCORE, st.integers(0, 1)), max_size=60)


def scores_from(logits, cuts=()):
    statistics = StreamingStatistics()
    edges = sorted({0, len(logits), *(c % (len(logits) + 1) for c in cuts)})
    for start, stop in zip(edges, edges[1:]):
        statistics.update(torch.as_tensor(logits[start:stop]))
    return compute_scores(statistics, SCORES)


@EXAMPLES
@given(LOGITS)
def test_every_score_is_finite_and_in_its_range(logits):
    for name, map_ in scores_from(logits).items():
        assert torch.isfinite(map_).all(), name
        bounds = score_range(name, logits.shape[1])
        if bounds is not None:
            low, high = bounds
            assert low <= map_.min() and map_.max() <= high + 1e-4, name


@EXAMPLES
@given(LOGITS, st.lists(st.integers(0, 99), max_size=4), st.randoms())
def test_neither_chunks_nor_the_order_of_networks_matter(logits, cuts, dice):
    order = list(range(len(logits)))
    dice.shuffle(order)
    expected = scores_from(logits)
    for name, map_ in scores_from(logits[order], cuts).items():
        torch.testing.assert_close(map_, expected[name], atol=1e-4, rtol=1e-5)


@EXAMPLES
@given(LOGITS, st.floats(-20, 20, width=32))
def test_a_constant_on_all_logits_changes_no_probability(logits, constant):
    moved = scores_from(logits + np.float32(constant))
    for name, map_ in scores_from(logits).items():
        if score_range(name, 2) is not None:
            torch.testing.assert_close(
                moved[name], map_, atol=2e-4, rtol=1e-4)


@EXAMPLES
@given(LOGITS)
def test_copies_of_one_network_agree(logits):
    copies = np.concatenate([logits[:1]] * 3)
    scores = scores_from(copies)
    assert scores['mutual_information'].max() < 1e-4
    assert scores['variance'].max() < 1e-5


def histogram(pixels, max_bins):
    scores, labels = zip(*pixels) if pixels else ((), ())
    return ScoreHistogram.from_scores(
        torch.tensor(scores, dtype=torch.float32),
        torch.tensor(labels, dtype=torch.long), max_bins=max_bins)


@EXAMPLES
@given(PIXELS, PIXELS, PIXELS, st.integers(1, 40))
def test_histograms_merge_in_any_order(one, two, three, max_bins):
    whole = histogram(one + two + three, max_bins)
    a, b, c = (histogram(part, max_bins) for part in (one, two, three))
    for merged in (a.merge(b).merge(c), c.merge(a.merge(b))):
        assert merged.level == whole.level
        for field in ('low', 'high', 'counts'):
            assert torch.equal(getattr(merged, field), getattr(whole, field))
    assert len(whole.low) <= max_bins
    assert whole.counts.sum() == len(one + two + three)


@EXAMPLES
@given(st.lists(SCORE, min_size=1, max_size=50))
def test_keys_keep_order_and_value(scores):
    scores = torch.tensor(sorted(scores), dtype=torch.float32)
    keys = keys_of(scores)
    assert (keys[1:] >= keys[:-1]).all() and (keys >= 0).all()
    assert ((keys[1:] == keys[:-1]) == (scores[1:] == scores[:-1])).all()
    np.testing.assert_array_equal(scores_of(keys), scores.double().numpy())


@EXAMPLES
@given(PIXELS.filter(lambda p: len({label for _, label in p}) == 2))
def test_curves_are_scikit_learn_s(pixels):
    scores, labels = map(np.array, zip(*pixels))
    # scikit-learn takes no infinity.
    scores = np.clip(scores, -1e30, 1e30)
    curve = DetectionCurve(
        histogram(list(zip(scores, labels)), 10**6), (1, ), (0, ))
    ranks = np.unique(scores.astype(np.float32), return_inverse=True)[1]
    assert curve.auroc() == pytest.approx(roc_auc_score(labels, ranks))
    assert curve.average_precision() == pytest.approx(
        average_precision_score(labels, ranks))
