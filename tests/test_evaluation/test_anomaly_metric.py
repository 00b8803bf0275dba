import logging
import math
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from mmengine.logging import MMLogger
from mmseg.registry import METRICS
from sklearn import metrics as sk

from abnn_mmseg.evaluation import AnomalyMetric


@contextmanager
def warnings_of():
    """What is logged as a warning meanwhile."""
    messages = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = MMLogger.get_current_instance()
    logger.addHandler(handler)
    yield messages
    logger.removeHandler(handler)


def scores_and_labels(sample, name='entropy'):
    return (sample.uncertainty.get(name).flatten().numpy(),
            sample.gt_anomaly.data.flatten().numpy())


def expected(scores, positive, negative):
    scores = np.r_[scores[positive], scores[negative]]
    labels = np.r_[np.ones(positive.sum()), np.zeros(negative.sum())]
    return (100 * sk.roc_auc_score(labels, scores),
            100 * sk.average_precision_score(labels, scores))


def found(metrics, protocol, score='entropy'):
    return tuple(metrics[f'ood/{protocol}/{score}/{name}']
                 for name in ('AUROC', 'AUPR'))


def test_pooled_leaves_void_out(make_sample, evaluate):
    samples = [make_sample(i) for i in range(4)]
    scores, labels = map(np.concatenate, zip(*map(scores_and_labels,
                                                  samples)))
    metrics = evaluate(AnomalyMetric(), samples)
    assert found(metrics, 'pooled') == pytest.approx(
        expected(scores, labels == 1, labels == 0))
    fpr, tpr, _ = sk.roc_curve(labels[labels < 2], scores[labels < 2])
    assert metrics['ood/pooled/entropy/FPR95'] == pytest.approx(
        100 * fpr[np.argmax(tpr >= .95)])


@pytest.mark.parametrize('protocol', ['per_image', 'muad'])
def test_per_image_protocols_skip_images_of_one_kind(make_sample, evaluate,
                                                     protocol):
    samples = [make_sample(i) for i in range(4)]
    samples.append(make_sample(4, ood=0, void=0))
    values = []
    for sample in samples[:4]:
        scores, labels = scores_and_labels(sample)
        # Void is in-distribution to Hendrycks' code and OOD to MUAD's.
        ood = labels == 1 if protocol == 'per_image' else labels > 0
        values.append(expected(scores, ood, ~ood))
    metrics = evaluate(AnomalyMetric(protocols=protocol), samples)
    assert found(metrics, protocol) == pytest.approx(np.mean(values, 0))
    assert not any('pooled' in name for name in metrics)


def test_every_score_and_protocol_has_its_key(make_sample, evaluate):
    metrics = evaluate(
        METRICS.build(
            dict(type='AnomalyMetric', scores=('msp', 'energy'))),
        [make_sample()])
    assert set(metrics) == {
        f'ood/{protocol}/{score}/{name}'
        for protocol in ('pooled', 'per_image', 'muad')
        for score in ('msp', 'energy') for name in ('AUROC', 'AUPR', 'FPR95')
    }


def test_no_ood_pixel_gives_nan_and_one_warning(make_sample, evaluate):
    with warnings_of() as messages:
        metrics = evaluate(
            AnomalyMetric(('msp', 'entropy')),
            [make_sample(i, ood=0) for i in range(3)])
    assert all(math.isnan(value) for value in metrics.values())
    assert len(messages) == 1 and 'OOD' in messages[0]


def test_a_metric_can_be_used_twice(make_sample, evaluate):
    metric = AnomalyMetric()
    first = evaluate(metric, [make_sample(1), make_sample(2)])
    evaluate(metric, [make_sample(3)])
    assert evaluate(metric, [make_sample(1), make_sample(2)]) == first


def test_results_do_not_hold_pixels(make_sample):
    metric = AnomalyMetric(max_bins=64)
    for seed in range(5):
        metric.process(None, [make_sample(seed, size=(64, 64)).to_dict()])
    assert len(metric._total['entropy'].low) <= 64
    for numbers in metric.results:
        assert len(numbers) == 3  # OOD pixels and two protocols
        assert not any(torch.is_tensor(value) for value in numbers.values())


@pytest.mark.parametrize('wrong, near', [('entrpy', 'entropy'),
                                         ('maxlogit', 'max_logit')])
def test_an_unknown_score_is_refused_with_the_nearest(wrong, near):
    with pytest.raises(ValueError, match=f"{wrong}.*did you mean '{near}'"):
        AnomalyMetric(scores=(wrong, ))


def test_an_unknown_protocol_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="pool'.*did you mean 'pooled'"):
        AnomalyMetric(protocols=('pool', ))


def test_a_missing_map_says_where_to_ask_for_it(make_sample, evaluate):
    with pytest.raises(ValueError, match=r'present: energy, entropy, msp.*'
                       r"segmentor's scores="):
        evaluate(AnomalyMetric(('variance', )), [make_sample()])


def test_nan_scores_name_the_image(make_sample, evaluate):
    sample = make_sample(7)
    sample.uncertainty.entropy[0, 3, 3] = math.nan
    with pytest.raises(ValueError, match='images/7.png.*NaN'):
        evaluate(AnomalyMetric(), [sample])


def test_missing_or_wrong_labels_name_the_image(make_sample, evaluate):
    sample = make_sample(7)
    sample.gt_anomaly.data[0, 0, 0] = 2
    with pytest.raises(ValueError, match='images/7.png.*other than'):
        evaluate(AnomalyMetric(), [sample])
    del sample.gt_anomaly
    with pytest.raises(ValueError, match='images/7.png.*no gt_anomaly'):
        evaluate(AnomalyMetric(), [sample])


def test_labels_of_another_size_are_refused(make_sample, evaluate):
    sample, other = make_sample(size=(8, 8)), make_sample(size=(8, 9))
    del sample.gt_anomaly
    sample.gt_anomaly = other.gt_anomaly
    with pytest.raises(ValueError, match=r'\(8, 9\).*\(8, 8\)'):
        evaluate(AnomalyMetric(), [sample])


def test_only_ood_pixels_give_nan_and_a_warning(make_sample, evaluate):
    sample = make_sample(0)
    sample.gt_anomaly.data[:] = 1
    with warnings_of() as messages:
        metrics = evaluate(AnomalyMetric(protocols=['pooled']), [sample])
    assert all(math.isnan(value) for value in metrics.values())
    assert len(messages) == 1 and 'pooled/entropy is NaN' in messages[0]


def test_frequent_scores_in_one_bin_give_a_warning(make_sample, evaluate):
    sample = make_sample(0)
    entropy = sample.uncertainty.entropy
    entropy[:] = torch.where(sample.gt_anomaly.data == 1, .2500001, .25)
    entropy[0, ::2] = torch.rand(12, 32)
    with warnings_of() as messages:
        evaluate(AnomalyMetric(protocols=['pooled'], max_bins=50), [sample])
    assert len(messages) == 1 and 'Raise max_bins=50' in messages[0]
    with warnings_of() as messages:
        evaluate(AnomalyMetric(protocols=['pooled']), [sample])
    assert not messages


def test_aupr_that_is_not_exact_gives_a_warning(make_sample, evaluate):
    """Few positives above all others hardly move AUROC and FPR95."""
    sample = make_sample(0, size=(200, 500))
    labels, entropy = sample.gt_anomaly.data, sample.uncertainty.entropy
    labels[:] = 0
    entropy[:] = torch.linspace(0, .5, labels.numel()).view_as(entropy)
    labels[0, 0, :2] = 1
    entropy[0, 0, :4] = torch.tensor([.9000001, .9000001, .9, .9])
    with warnings_of() as messages:
        evaluate(AnomalyMetric(protocols=['pooled'], max_bins=2000), [sample])
    assert len(messages) == 1 and 'AUPR by' in messages[0]


@pytest.mark.parametrize('max_bins', [0, -1, 2.5, None])
@pytest.mark.parametrize(
    'metric', ['AnomalyMetric', 'CalibrationMetric', 'SelectiveMetric'])
def test_a_histogram_needs_a_bin(metric, max_bins):
    with pytest.raises(ValueError, match='max_bins=.* positive integer'):
        METRICS.build(dict(type=metric, max_bins=max_bins))


def test_negative_labels_are_refused(make_sample, evaluate):
    sample = make_sample(0)
    sample.gt_anomaly.data = sample.gt_anomaly.data.long()
    sample.gt_anomaly.data[0, 0, 0] = -1
    with pytest.raises(ValueError, match='other than 0'):
        evaluate(AnomalyMetric(), [sample])
