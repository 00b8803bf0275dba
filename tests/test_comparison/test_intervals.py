import numpy as np
import pytest
from mmengine.evaluator import Evaluator
from mmseg.registry import METRICS as REGISTRY
from random_samples import build_sample

from abnn_mmseg.comparison.intervals import (
    Intervals,
    interval_of,
    measure,
    resamples,
    statistics_file,
)
from abnn_mmseg.comparison.report import difference_lines
from abnn_mmseg.evaluation.image_statistics import image_statistics

METRICS = [
    dict(type='IoUMetric', iou_metrics=['mIoU']),
    dict(type='CalibrationMetric', protocols=('pooled', )),
    dict(type='AnomalyMetric', protocols=('pooled', ),
         scores=('entropy', 'energy')),
    dict(type='ImageStatisticsMetric', scores=('entropy', 'energy')),
]


def evaluate(images, **kwargs):
    """Metrics of random predictions, and the arrays of their images."""
    evaluator = Evaluator([REGISTRY.build(dict(one)) for one in METRICS])
    evaluator.dataset_meta = dict(classes=list('abcd'))
    for seed in images:
        evaluator.process([build_sample(seed, **kwargs)])
    metrics = evaluator.evaluate(len(images))
    metrics['seg/mIoU'] = metrics.pop('mIoU')
    return metrics, image_statistics(evaluator.metrics)


@pytest.fixture(scope='module')
def measured():
    return evaluate(range(12))


def test_all_images_once_give_the_metrics_themselves(measured):
    metrics, arrays = measured
    whole = measure(arrays, resamples(12, 1)[:1])
    for name, values in whole.items():
        assert values[0] == pytest.approx(metrics[name], abs=0.2), name
    assert {'seg/mIoU', 'cal/pooled/ECE', 'cal/pooled/NLL',
            'ood/pooled/energy/FPR95', 'ood/pooled/entropy/AUPR'} <= {*whole}


def test_a_resample_is_the_set_of_its_images(measured):
    """Weights of 2, 0, 1, ... are images taken twice, never, once."""
    weights = resamples(12, 1)[1:]
    chosen = [i for i, n in enumerate(weights[0]) for _ in range(n)]
    expected, _ = evaluate(chosen)
    for name, values in measure(measured[1], weights).items():
        assert values[0] == pytest.approx(expected[name], abs=0.2), name


def test_interval_is_that_of_the_normal_distribution():
    """For the mean of n differences: plus minus 1.96 s / sqrt(n)."""
    n, rng = 200, np.random.default_rng(0)
    one, other = rng.normal(2, 1, n), rng.normal(0, 1, n)
    weights = resamples(n, 4000)
    low, high = interval_of(weights @ one / n, weights @ other / n,
                            (one - other).mean())
    middle, half = (one - other).mean(), 1.96 * (
        one - other).std() / np.sqrt(n)
    assert low == pytest.approx(middle - half, abs=0.03)
    assert high == pytest.approx(middle + half, abs=0.03)


def test_images_that_are_hard_for_both_do_not_count():
    rng = np.random.default_rng(0)
    hard = rng.normal(0, 10, 50)
    weights = resamples(50)
    low, high = interval_of(weights @ (hard + 1), weights @ hard, 50.)
    assert (low, high) == (pytest.approx(50), pytest.approx(50))


def row(method, key, metrics, group=None):
    return dict(
        method=method, variant='', group=group, dataset='test', images=12,
        key=key, metrics=metrics, inference=dict(ratio=1.),
        training={}, disk_bytes=0)


def test_rows_and_groups_are_compared_with_the_reference(measured, tmp_path):
    metrics, arrays = measured
    better, other_arrays = evaluate(range(12), ood=0.3)
    np.savez(statistics_file(tmp_path, 'k0'), **arrays)
    for key in ('k1', 'k2'):
        np.savez(statistics_file(tmp_path, key), **other_arrays)
    rows = [row('base', 'k0', metrics), row('A 1', 'k1', better, 'A'),
            row('A 2', 'k2', better, 'A'), row('old', 'k3', better)]
    base, one, _, old, group = Intervals(tmp_path, 'base').of(rows)
    name = 'ood/pooled/entropy/AUPR'
    expected = better[name] - metrics[name]
    assert 'difference' not in base
    assert one['difference'][name]['value'] == pytest.approx(expected)
    assert one['difference'][name]['low'] < expected
    assert one['difference'][name]['high'] > expected
    # Two equal seeds are as good as one, and rows without images have none.
    assert group['difference'][name] == pytest.approx(one['difference'][name])
    assert set(old['difference'][name]) == {'value'}
    shown = difference_lines([one, old], ['entropy'])
    assert '[' in shown[0]['AUPR'] and '~' not in shown[0]['AUPR']
    assert '~' in shown[0]['NLL'] or '~' in shown[0]['ECE'] or '~' in shown[
        0]['mIoU']
    assert '[' not in shown[1]['AUPR']


def test_a_set_without_anomalies_has_no_interval_of_auroc(tmp_path):
    _, arrays = evaluate(range(4), ood=0.)
    found = measure(arrays, resamples(4, 10))
    name = 'ood/pooled/entropy/AUROC'
    assert np.isnan(found[name]).all()
    assert interval_of(found[name], found[name], 0.) is None
    assert np.isfinite(found['seg/mIoU']).all()
