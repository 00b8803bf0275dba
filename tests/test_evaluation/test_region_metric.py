"""Component-level metrics against the benchmark's definition, set by set."""
import numpy as np
import pytest
import torch
from scipy.ndimage import label
from sklearn.metrics import precision_recall_curve

from abnn_mmseg.evaluation import RegionMetric
from abnn_mmseg.evaluation.components import LEVELS, agreement, components


def blobs(seed, size=(40, 60), share=0.3):
    """A smooth random field, so that areas have many pixels."""
    rng = np.random.default_rng(seed)
    field = rng.normal(size=size)
    for _ in range(3):
        field += sum(np.roll(field, (dy, dx), (0, 1))
                     for dy in (-1, 0, 1) for dx in (-1, 0, 1))
    field = (field - field.min()) / (field.max() - field.min())
    return field.astype(np.float32), np.quantile(field, 1 - share)


def slow(scores, labels, threshold, min_area, min_truth):
    """The definition with sets of pixels, in the words of the paper."""
    def areas(mask):
        numbers, count = label(mask, np.ones((3, 3)))
        return [set(zip(*np.nonzero(numbers == i + 1))) for i in range(count)]

    truth = areas(labels == 1)
    found = [a for a in areas((scores >= threshold) & (labels != 255))
             if len(a) >= min_area]
    void = set(zip(*np.nonzero(labels == 255)))
    void |= set().union(*(a for a in truth if len(a) < min_truth))
    truth = [a for a in truth if len(a) >= min_truth]
    found = [a - void for a in found if a - void]

    def overlap(area, own, pieces):
        touching = set().union(*(p for p in pieces if p & area))
        others = set().union(*(o for o in own if o is not area))
        return len(area & touching) / len((area | touching) - (
            touching & others))

    everything = set().union(*truth)
    return ([overlap(a, truth, found) for a in truth],
            [len(a & everything) / len(a) for a in found])


def f1(truth, precision):
    values = []
    for level in LEVELS:
        hits = sum(v >= level for v in truth)
        alarms = sum(v < level for v in precision)
        values.append(2 * hits / (hits + len(truth) + alarms))
    return np.mean(values)


def with_planes(make_sample, seed):
    field, threshold = blobs(seed)
    other, cut = blobs(seed + 100)
    sample = make_sample(seed, size=field.shape)
    labels = (0.5 * field + other > 0.5 * threshold + cut).astype(np.uint8)
    labels[:, :5] = 255
    sample.gt_anomaly.data = torch.from_numpy(labels)[None]
    sample.uncertainty.entropy = torch.from_numpy(field)[None]
    return sample, field, labels, float(threshold)


@pytest.mark.parametrize('seed', range(8))
def test_agreement_is_that_of_sets_of_pixels(make_sample, seed):
    sample, field, labels, threshold = with_planes(make_sample, seed)
    metric = RegionMetric(thresholds=threshold, min_area=6, min_truth=4)
    got, _ = metric.measure(sample.to_dict())
    for one, other in zip(got['entropy'],
                          slow(field, labels, threshold, 6, 4)):
        np.testing.assert_allclose(sorted(one), sorted(other))


def test_values_of_a_set_pool_all_areas(make_sample, evaluate):
    samples, truth, precision = [], [], []
    for seed in range(4):
        sample, field, labels, _ = with_planes(make_sample, seed)
        samples.append(sample)
        values = slow(field, labels, np.float32(0.6), 6, 4)
        truth += values[0]
        precision += values[1]
    got = evaluate(RegionMetric(thresholds=0.6, min_area=6, min_truth=4),
                   samples)
    assert len(truth) > 10 and len(precision) > 10
    assert got['ood/region/entropy/sIoU'] == pytest.approx(
        100 * np.mean(truth))
    assert got['ood/region/entropy/PPV'] == pytest.approx(
        100 * np.mean(precision))
    assert got['ood/region/entropy/F1'] == pytest.approx(
        100 * f1(truth, precision))
    assert 0 < got['ood/region/entropy/F1'] < 100


def test_the_default_threshold_has_the_best_f1_of_pixels(make_sample,
                                                         evaluate):
    made = [with_planes(make_sample, seed) for seed in range(4)]
    pixels = [(labels[labels < 255], field[labels < 255])
              for _, field, labels, _ in made]
    precision, recall, thresholds = precision_recall_curve(
        *map(np.concatenate, zip(*pixels)))
    best = thresholds[np.argmax((2 * precision * recall / np.maximum(
        precision + recall, 1e-9))[:-1])]
    samples = [sample for sample, *_ in made]
    options = dict(min_area=6, min_truth=4)
    metric = RegionMetric(**options)
    assert evaluate(metric, samples) == evaluate(
        RegionMetric(thresholds=float(best), **options), samples)
    assert metric._folder is None


def test_identical_masks_are_perfect_and_empty_ones_nothing():
    mask = np.zeros((9, 9), bool)
    mask[1:4, 1:4] = mask[6:8, 6:8] = True
    numbers = components(mask)
    np.testing.assert_array_equal(
        np.unique(numbers), [0, 1, 2])
    assert all((values == 1).all() for values in agreement(numbers, numbers))
    lost = agreement(numbers, np.zeros_like(numbers))
    assert lost.truth.tolist() == [0, 0] and not len(lost.precision)


def test_two_pieces_of_an_object_together_are_the_object():
    truth = np.zeros((4, 10), int)
    truth[1:3] = 1
    found = truth.copy()
    found[:, 5] = 0
    found[:, 6:] *= 2
    assert agreement(truth, found).truth == pytest.approx(18 / 20)
    np.testing.assert_array_equal(agreement(truth, found).precision, [1, 1])


def test_a_set_without_objects_is_nan_with_a_warning(make_sample, evaluate,
                                                     monkeypatch):
    sample, *_ = with_planes(make_sample, 0)
    sample.gt_anomaly.data = torch.zeros_like(sample.gt_anomaly.data)
    said = []
    monkeypatch.setattr(RegionMetric, 'warn', lambda self, text:
                        said.append(text))
    got = evaluate(RegionMetric(thresholds=0.6, min_area=6), [sample])
    assert np.isnan(got['ood/region/entropy/sIoU'])
    assert got['ood/region/entropy/F1'] == 0
    assert 'no' in said[0] and 'OOD area' in said[0]


def test_a_missing_threshold_is_named():
    with pytest.raises(ValueError, match="has none of 'msp'"):
        RegionMetric(scores=('entropy', 'msp'), thresholds=dict(entropy=1))
