"""What CONTRIBUTING.md builds, works."""
import re
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmseg.registry import DATASETS
from toys import build, toy_config

from abnn_mmseg.models import segmentor
from abnn_mmseg.uncertainty import StreamingStatistics
from abnn_mmseg.uncertainty.scores import SCORES, compute_scores

PAGE = Path(__file__).resolve().parents[1] / 'CONTRIBUTING.md'
POSTERIOR, SCORE, DATASET = re.findall(
    r'^```python\n(.*?)^```', PAGE.read_text(), re.M | re.S)


def run(code):
    names = {'__name__': 'example'}
    exec(compile(code, 'CONTRIBUTING.md', 'exec'), names)
    return names


@pytest.fixture(scope='module')
def posterior():
    return run(POSTERIOR)['SharpnessPosterior']


def test_the_posterior_is_the_mean_of_its_networks(posterior, images):
    model = build(toy_config(
        auxiliary=False, type='BayesianEncoderDecoder', posterior=dict(
            type='SharpnessPosterior', factors=(0.5, 3)))).eval()
    assert isinstance(model, segmentor.BayesianSegmentor)
    metas = [dict(img_shape=(32, 48), ori_shape=(32, 48),
                  pad_shape=(32, 48))] * 2
    with torch.no_grad():
        answer = model.answer(images, metas)
        logits = model.encode_decode(images, metas)
        expected = torch.stack([
            (factor * logits).softmax(1) for factor in (0.5, 3)]).mean(0)
    for statistics, probability in zip(answer.statistics, expected):
        torch.testing.assert_close(statistics.probability, probability)


def test_a_wrong_factor_is_refused(posterior):
    with pytest.raises(ValueError, match='positive numbers'):
        posterior(factors=(0, 1))


def test_the_score_is_its_formula():
    run(SCORE)
    try:
        statistics = StreamingStatistics()
        statistics.update(torch.tensor([0.5, 0.3, 0.2]).log()[
            None, :, None, None])
        margin = compute_scores(statistics, ['margin'])['margin']
        assert margin.item() == pytest.approx(0.8, abs=1e-6)
    finally:
        SCORES.pop('margin')


def test_the_dataset_reads_its_labels(tmp_path):
    raw = np.array([[1, 2, 3, 4], [9, 0, 255, 1]], np.uint8)
    for folder, picture in (('images', np.zeros((2, 4, 3), np.uint8)),
                            ('labels', raw)):
        path = tmp_path / folder / 'test'
        path.mkdir(parents=True)
        cv2.imwrite(str(path / 'pier.png'), picture)
    run(DATASET)
    [item] = DATASETS.build(dict(
        type='HarbourDataset', split='test', data_root=str(tmp_path),
        pipeline=[dict(type='LoadImageFromFile'),
                  dict(type='LoadAnomalyAnnotations'),
                  dict(type='PackAnomalyInputs')]))
    sample = item['data_samples']
    assert sample.gt_sem_seg.data[0].tolist() == [
        [0, 1, 2, 2], [255, 255, 255, 0]]
    assert sample.gt_anomaly.data[0].tolist() == [
        [0, 0, 0, 0], [1, 255, 255, 0]]
