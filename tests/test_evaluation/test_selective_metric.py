import math

import numpy as np
import pytest

from abnn_mmseg.evaluation import SelectiveMetric


def risks(samples, score):
    """Selective risk at each coverage, by sorting all labelled pixels."""
    scores = np.concatenate(
        [s.uncertainty.get(score).flatten().numpy() for s in samples])
    pred = np.concatenate([s.pred_sem_seg.data.flatten() for s in samples])
    labels = np.concatenate([s.gt_sem_seg.data.flatten() for s in samples])
    known = labels != 255
    wrong = (pred != labels)[known][scores[known].argsort()]
    return 100 * wrong.cumsum() / np.arange(1, wrong.size + 1)


@pytest.mark.parametrize('score', ['msp', 'entropy', 'energy'])
def test_values_are_those_of_all_sorted_pixels(make_sample, evaluate, score):
    samples = [make_sample(i) for i in range(3)]
    metrics = evaluate(SelectiveMetric((score, ), (.5, .8, 1)), samples)
    expected = risks(samples, score)
    assert metrics[f'sel/pooled/{score}/AURC'] == pytest.approx(
        expected.mean(), abs=1e-3)
    for coverage in (50, 80, 100):
        last = math.ceil(coverage / 100 * expected.size) - 1
        assert metrics[f'sel/pooled/{score}/risk@{coverage}'] == pytest.approx(
            expected[last], abs=1e-2)


def test_auroc_is_the_chance_that_a_wrong_pixel_scores_higher(
        make_sample, evaluate):
    sample = make_sample(size=(8, 12))
    metrics = evaluate(SelectiveMetric(('entropy', )), [sample])
    labels = sample.gt_sem_seg.data.flatten()
    scores = sample.uncertainty.entropy.flatten()[labels != 255]
    wrong = (sample.pred_sem_seg.data.flatten() != labels)[labels != 255]
    higher = scores[wrong][:, None] > scores[~wrong]
    assert metrics['sel/pooled/entropy/AUROC'] == pytest.approx(
        100 * higher.float().mean().item(), abs=1e-2)


def test_msp_and_entropy_come_from_the_logits_if_need_be(
        make_sample, evaluate):
    sample = make_sample()
    given = evaluate(SelectiveMetric(('msp', 'entropy')), [sample])
    del sample.uncertainty
    derived = evaluate(SelectiveMetric(('msp', 'entropy')), [sample])
    assert derived == pytest.approx(given, abs=1e-2)
    with pytest.raises(ValueError, match='present: none'):
        evaluate(SelectiveMetric(('energy', )), [sample])


def test_coverage_is_a_fraction():
    with pytest.raises(ValueError, match='80.*write 0.8'):
        SelectiveMetric(coverages=(80, ))


def test_no_labelled_pixel_gives_nan(make_sample, evaluate):
    sample = make_sample()
    sample.gt_sem_seg.data.fill_(255)
    metrics = evaluate(SelectiveMetric(), [sample])
    assert all(math.isnan(value) for value in metrics.values())
