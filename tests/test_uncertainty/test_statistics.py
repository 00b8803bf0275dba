import math

import pytest
import torch

from abnn_mmseg.uncertainty import (
    SCORES,
    StreamingStatistics,
    check_scores,
    score_range,
)
from abnn_mmseg.uncertainty.scores import compute_scores, statistics_for


def stream(logits, step):
    statistics = StreamingStatistics()
    for start in range(0, len(logits), step):
        statistics.update(logits[start:start + step])
    return statistics


def naive(logits):
    """All K probability maps at once, in float64."""
    p = logits.double().softmax(1)
    mean = p.mean(0)

    def entropy(q, dim):
        return torch.special.entr(q).sum(dim)

    return dict(
        msp=1 - mean.max(0).values,
        entropy=entropy(mean, 0),
        expected_entropy=entropy(p, 1).mean(0),
        mutual_information=entropy(mean, 0) - entropy(p, 1).mean(0),
        variance=p.var(0, correction=0).sum(0),
        max_logit=-logits.double().mean(0).max(0).values,
        energy=-logits.double().mean(0).logsumexp(0))


@pytest.mark.parametrize('step', [1, 3, 12])
@pytest.mark.parametrize('scale', [0.1, 3., 60.])
def test_streaming_equals_the_naive_computation(step, scale):
    logits = scale * torch.randn(12, 7, 6, 5)
    actual = compute_scores(stream(logits, step), SCORES)
    for name, expected in naive(logits).items():
        assert torch.allclose(actual[name].double(), expected, atol=2e-5,
                              rtol=1e-5), name


def test_closed_forms():
    """Two sure networks that disagree: one bit, all of it epistemic."""
    logits = torch.zeros(2, 4, 1, 1)
    logits[0, 0], logits[1, 1] = 200, 200
    scores = compute_scores(stream(logits, 1), SCORES)
    assert scores['entropy'].item() == pytest.approx(math.log(2))
    assert scores['mutual_information'].item() == pytest.approx(math.log(2))
    assert scores['expected_entropy'].item() == pytest.approx(0, abs=1e-6)
    assert scores['msp'].item() == pytest.approx(0.5)
    assert scores['variance'].item() == pytest.approx(0.5)
    assert scores['max_logit'].item() == -100
    assert scores['energy'].item() == pytest.approx(-100 - math.log(2))
    uniform = compute_scores(stream(torch.zeros(2, 4, 1, 1), 2), SCORES)
    assert uniform['entropy'].item() == pytest.approx(math.log(4))
    assert uniform['mutual_information'].item() == pytest.approx(0, abs=1e-6)
    assert uniform['energy'].item() == pytest.approx(-math.log(4))


def test_impossible_classes_do_not_make_nan():
    logits = torch.randn(3, 4, 2, 2)
    logits[:, 2] = -math.inf
    scores = compute_scores(stream(logits, 1), SCORES)
    assert all(torch.isfinite(m).all() for m in scores.values())


def test_half_precision_logits_are_accumulated_in_float32():
    statistics = stream(torch.randn(4, 3, 2, 2).half(), 2)
    assert statistics.probability.dtype == torch.float32


def test_bounded_scores_stay_in_their_range():
    logits = 10 * torch.randn(8, 5, 20, 20)
    for name, map_ in compute_scores(stream(logits, 4), SCORES).items():
        bounds = score_range(name, 5)
        if bounds is not None:
            assert bounds[0] <= map_.min() and map_.max() <= bounds[1] + 1e-6


def test_memory_does_not_grow_with_the_number_of_networks():
    few, many = stream(torch.randn(2, 3, 4, 4), 1), StreamingStatistics()
    for _ in range(50):
        many.update(torch.randn(2, 3, 4, 4))
    size = [sum(t.numel() for t in s._sums.values()) for s in (few, many)]
    assert size[0] == size[1]


@pytest.mark.parametrize('score', SCORES)
def test_mean_logits_are_kept_for_scores_that_need_them(score):
    logits = torch.randn(4, 5, 3, 2)
    lean = statistics_for([score])
    lean.update(logits)
    assert ('logits' in lean._sums) == (score in ('max_logit', 'energy'))
    assert torch.equal(compute_scores(lean, [score])[score],
                       compute_scores(stream(logits, 4), [score])[score])


def test_statistics_of_nothing_are_an_error():
    with pytest.raises(ValueError, match='empty'):
        StreamingStatistics().probability  # noqa: B018


def test_an_unknown_score_suggests_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'mutual_information'"):
        check_scores(['mutual_info'])


def test_one_network_disagrees_with_nobody():
    """Not even by the rounding of two ways to the same entropy."""
    scores = compute_scores(stream(9 * torch.randn(1, 7, 64, 64), 1), SCORES)
    assert (scores['mutual_information'] == 0).all()
    assert (scores['variance'] == 0).all()
