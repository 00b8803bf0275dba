import math

import numpy as np
import pytest
import torch
from mmengine.structures import PixelData
from mmseg.structures import SegDataSample
from sklearn import metrics as sk

from abnn_mmseg.evaluation import CalibrationMetric


def sample_of(prob, labels):
    """``prob`` is [C, N] or [1, N] (foreground), ``labels`` [N]."""
    sample = SegDataSample(metainfo=dict(img_path='a.png'))
    prob = torch.as_tensor(prob, dtype=torch.float32)[:, None]
    logits = prob.log() if len(prob) > 1 else prob
    sample.seg_logits = PixelData(data=logits)
    sample.gt_sem_seg = PixelData(data=torch.as_tensor(labels)[None, None])
    return sample


def random_case(seed=0, classes=5, pixels=3000):
    rng = np.random.default_rng(seed)
    prob = rng.dirichlet([.4] * classes, pixels).T.astype(np.float32)
    labels = np.where(
        rng.random(pixels) < .5, prob.argmax(0),
        rng.integers(0, classes, pixels))
    return prob, labels


def ece(confidence, right, edges):
    """By definition, bin by bin; also the largest gap."""
    gaps, shares = [], []
    for lower, upper in zip(edges[:-1], edges[1:]):
        inside = (confidence > lower) & (confidence <= upper)
        if inside.any():
            gaps.append(abs(confidence[inside].mean() - right[inside].mean()))
            shares.append(inside.mean())
    return 100 * np.dot(gaps, shares), 100 * np.max(gaps)


EDGES = np.linspace(0, 1, 16)


def test_values_follow_their_definitions(evaluate):
    prob, labels = random_case()
    metrics = evaluate(CalibrationMetric(), [sample_of(prob, labels)])
    right = prob.argmax(0) == labels
    confidence = prob.max(0)
    one_hot = np.eye(5)[labels].T
    assert (metrics['cal/pooled/ECE'], metrics['cal/pooled/MCE']) == (
        pytest.approx(ece(confidence, right, EDGES), abs=1e-4))
    assert metrics['cal/pooled/ECE_classwise'] == pytest.approx(
        np.mean([ece(p, y, EDGES)[0] for p, y in zip(prob, one_hot)]),
        abs=1e-4)
    assert metrics['cal/pooled/NLL'] == pytest.approx(
        sk.log_loss(labels, prob.T.astype(float)), rel=1e-4)
    assert metrics['cal/pooled/Brier'] == pytest.approx(
        ((prob - one_hot)**2).sum(0).mean(), rel=1e-5)
    order = confidence.argsort()
    gaps = (confidence[order].reshape(15, -1).mean(1) -
            right[order].reshape(15, -1).mean(1))
    assert metrics['cal/pooled/ECE_adaptive'] == pytest.approx(
        100 * np.abs(gaps).mean(), abs=1e-3)


def test_a_perfect_predictor_has_no_error(evaluate):
    labels = np.arange(3000) % 3
    metrics = evaluate(CalibrationMetric(),
                       [sample_of(np.eye(3)[labels].T, labels)])
    assert list(metrics.values()) == pytest.approx([0] * 7, abs=1e-6)


def test_a_constant_predictor_is_off_by_its_overconfidence(evaluate):
    # Says class 0 with 0.9, is right in 60 %.
    labels = np.r_[np.zeros(600), np.ones(400)].astype(int)
    prob = np.tile([[.9], [.1]], 1000)
    metrics = evaluate(CalibrationMetric(), [sample_of(prob, labels)])
    for name in ('pooled/ECE', 'pooled/MCE', 'pooled/ECE_adaptive',
                 'pooled/ECE_classwise', 'muad/ECE'):
        assert metrics[f'cal/{name}'] == pytest.approx(30, abs=1e-4)
    assert metrics['cal/pooled/NLL'] == pytest.approx(
        -.6 * math.log(.9) - .4 * math.log(.1), rel=1e-5)


@pytest.mark.parametrize('classes', [2, 4, 19])
def test_a_uniform_predictor_has_known_losses(evaluate, classes):
    labels = np.arange(classes * 100) % classes
    prob = np.full((classes, labels.size), 1 / classes)
    metrics = evaluate(CalibrationMetric(), [sample_of(prob, labels)])
    assert metrics['cal/pooled/NLL'] == pytest.approx(math.log(classes))
    assert metrics['cal/pooled/Brier'] == pytest.approx(1 - 1 / classes)
    # Each class is as frequent as its probability says.
    assert metrics['cal/pooled/ECE'] == pytest.approx(0, abs=1e-4)
    assert metrics['cal/pooled/ECE_classwise'] == pytest.approx(0, abs=1e-4)


def test_pooled_ignores_void_and_muad_counts_it_wrong(evaluate):
    prob, labels = random_case()
    void = np.arange(labels.size) % 4 == 0
    masked = np.where(void, 255, labels)
    metrics = evaluate(CalibrationMetric(), [sample_of(prob, masked)])
    clean = evaluate(
        CalibrationMetric(), [sample_of(prob[:, ~void], labels[~void])])
    for name in metrics:
        if 'pooled' in name:
            assert metrics[name] == pytest.approx(clean[name], rel=1e-6)
    right = prob.argmax(0) == masked
    assert metrics['cal/muad/ECE'] == pytest.approx(
        ece(prob.max(0), right, EDGES)[0], abs=1e-4)


def test_muad_is_the_mean_over_images(evaluate):
    cases = [random_case(seed, pixels=500 * seed) for seed in (1, 2, 3)]
    metrics = evaluate(CalibrationMetric(), [sample_of(*c) for c in cases])
    single = [
        evaluate(CalibrationMetric(), [sample_of(*c)])['cal/pooled/ECE']
        for c in cases
    ]
    assert metrics['cal/muad/ECE'] == pytest.approx(np.mean(single))
    together = sample_of(*map(np.hstack, zip(*cases)))
    whole = evaluate(CalibrationMetric(), [together])
    for name in whole:
        if 'pooled' in name:
            assert metrics[name] == pytest.approx(whole[name], rel=1e-5)


def test_a_binary_head_is_two_classes(evaluate):
    prob, labels = random_case(classes=2)
    prob = .01 + .98 * prob
    two = evaluate(CalibrationMetric(), [sample_of(prob, labels)])
    one = evaluate(CalibrationMetric(), [sample_of(prob[1:], labels)])
    assert one == pytest.approx(two, rel=1e-4)


def test_no_labelled_pixel_gives_nan(evaluate):
    prob, labels = random_case()
    metrics = evaluate(
        CalibrationMetric(protocols='pooled'),
        [sample_of(prob, np.full_like(labels, 255))])
    assert all(math.isnan(value) for value in metrics.values())


def test_mistakes_are_explained(evaluate):
    prob, labels = random_case()
    labels[0] = 5
    with pytest.raises(ValueError, match='a.png has label 5.*5 classes'):
        evaluate(CalibrationMetric(), [sample_of(prob, labels)])
    with pytest.raises(ValueError, match="did you mean 'muad'"):
        CalibrationMetric(protocols=('mua', ))
    prob[0, 0] = np.nan
    with pytest.raises(ValueError, match='a.png have NaN'):
        evaluate(CalibrationMetric(), [sample_of(prob, labels)])


def test_a_negative_label_is_named(evaluate):
    prob, labels = random_case()
    labels[7] = -1
    with pytest.raises(ValueError, match='has label -1, but .* must be 255'):
        evaluate(CalibrationMetric(), [sample_of(prob, labels)])


@pytest.mark.parametrize('value', [math.inf, -math.inf])
def test_logits_without_a_softmax_are_refused(evaluate, value):
    sample = sample_of(*random_case())
    sample.seg_logits.data[:, 0, 0] = value
    with pytest.raises(ValueError, match='a.png are infinite'):
        evaluate(CalibrationMetric(), [sample])


def test_a_probability_of_zero_is_an_infinite_loss(evaluate):
    sample = sample_of([[1., .5], [0., .5]], [1, 0])
    assert evaluate(CalibrationMetric(), [sample])[
        'cal/pooled/NLL'] == math.inf
