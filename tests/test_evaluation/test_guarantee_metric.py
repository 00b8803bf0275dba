"""Guarantees are measured as they are promised; in parts as in one go."""
import pytest
import torch
from mmengine.structures import PixelData
from random_samples import build_sample

from abnn_mmseg.evaluation import GuaranteeMetric, RiskCalibration
from abnn_mmseg.uncertainty.guarantees import Guarantee

RISKS = {
    'label-set': dict(level=0.1),
    'coverage': dict(level=0.2, part=0.8),
    'false-alarm': dict(level=0.1, score='entropy', part=0.05),
    'miss': dict(level=0.1, score='entropy'),
}


def calibrated(risk, samples, **options):
    calibration = RiskCalibration(risk, **{**RISKS[risk], **options})
    for sample in samples:
        calibration.process({}, [sample.to_dict()])
    found = calibration.evaluate(len(samples))
    return {key.split('/')[1]: value for key, value in found.items()}


def guaranteed(sample, guarantees):
    maps = {name: values[0] for name, values in sample.uncertainty.items()}
    probability = sample.seg_logits.data.softmax(0)
    sample.guaranteed = PixelData(
        **{g.risk: g.apply(probability, maps) for g in guarantees})
    sample.set_metainfo(dict(guarantees=[g.to_dict() for g in guarantees]))
    return sample


@pytest.fixture(scope='module')
def guarantees():
    samples = [build_sample(seed) for seed in range(30)]
    return [
        Guarantee(risk, options['level'],
                  calibrated(risk, samples)['threshold'], 30, 'val', '', '',
                  options.get('score'), options.get('part'))
        for risk, options in RISKS.items()]


def test_new_images_of_the_kind_keep_every_promise(guarantees, evaluate):
    samples = [guaranteed(build_sample(seed), guarantees)
               for seed in range(100, 160)]
    found = evaluate(GuaranteeMetric(), samples)
    assert 88 < found['risk/label-set/coverage'] < 94
    assert found['risk/label-set/promised'] == pytest.approx(90)
    assert found['risk/coverage/images_covered'] >= 70
    # One calibration of thirty images may be lucky.
    assert found['risk/false-alarm/false_alarms'] <= 30
    assert 5 < found['risk/miss/missed'] < 13
    assert found['risk/miss/promised'] == 10
    assert 1 < found['risk/label-set/set_size'] < 4


def test_numbers_are_those_of_counting(guarantees, evaluate):
    sample = guaranteed(build_sample(7), guarantees)
    found = evaluate(GuaranteeMetric(), [sample])
    labels = sample.gt_sem_seg.data[0]
    known = labels != 255
    sets = sample.guaranteed.get('label-set')[:, known]
    inside = sets[labels[known], torch.arange(int(known.sum()))]
    assert found['risk/label-set/coverage'] == pytest.approx(
        100 * inside.double().mean().item())
    assert found['risk/label-set/set_size'] == pytest.approx(
        sets.sum(0).double().mean().item())
    missed = ~sample.guaranteed.get('miss')[sample.gt_anomaly.data == 1]
    assert found['risk/miss/missed'] == pytest.approx(
        100 * missed.double().mean().item())


def test_images_without_unknown_pixels_do_not_count_for_misses(
        guarantees, evaluate):
    samples = [guaranteed(build_sample(seed, ood=0.), guarantees)
               for seed in range(3)]
    assert 'risk/miss/missed' not in evaluate(GuaranteeMetric(), samples)
    with pytest.raises(ValueError, match='0 images with an unknown'):
        calibrated('miss', samples)


@pytest.mark.parametrize('risk', RISKS)
def test_a_calibration_goes_on_where_it_stopped(risk):
    samples = [build_sample(seed) for seed in range(20)]
    first = RiskCalibration(risk, **RISKS[risk])
    for sample in samples[:12]:
        first.process({}, [sample.to_dict()])
    second = RiskCalibration(risk, **RISKS[risk])
    second.load_state_dict(first.state_dict())
    for sample in samples[12:]:
        second.process({}, [sample.to_dict()])
    found = second.evaluate(20)['calibrated/threshold']
    assert found == calibrated(risk, samples)['threshold']


def test_class_labels_alone_are_enough_for_false_alarms():
    samples = [build_sample(seed) for seed in range(12)]
    expected = calibrated('false-alarm', samples)
    for sample in samples:
        del sample.gt_anomaly
    assert calibrated('false-alarm', samples) == expected


def test_a_promise_is_a_sentence():
    def sentence(risk, **options):
        return Guarantee(risk, 0.05, 0.5, 101, 'val', '', '',
                         **options).sentence()

    assert "95 % of an image's pixels" in sentence('label-set')
    assert 'in 95 % of the images, the set holds the true class of at least '\
        '90 % of the pixels' in sentence('coverage', part=0.9)
    assert 'in at most 5 % of the images, the alarm flags a known pixel' in (
        sentence('false-alarm', part=0.))
    assert 'misses at most 5 %' in sentence('miss')
    assert sentence('miss').endswith('for images like the 101 of val')
