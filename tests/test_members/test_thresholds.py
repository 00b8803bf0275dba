"""A threshold is chosen on val, kept with the members, and applied."""
import csv

import cv2
import numpy as np
import pytest
from mmseg.registry import DATASETS
from sketches import abnn_config

from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.export import ABNNInferencer, export_maps
from abnn_mmseg.export.items import find_items
from abnn_mmseg.members.files import (
    fingerprint,
    load_members,
    norm_state,
    save_members,
    store,
)
from abnn_mmseg.members.thresholds import choose_thresholds


@pytest.fixture
def cfg(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path / 'work', base)
    cfg.val_dataloader.dataset.split = 'test_ood'
    cfg.model.scores = ('entropy', 'energy')
    return cfg


@pytest.fixture
def members(cfg, base, tmp_path):
    model = build_segmentor(cfg, base)
    path = tmp_path / 'members.pth'
    save_members(path, [dict(state=norm_state(model), meta=dict(seed=3))] * 2,
                 fingerprint(model))
    return path


def predictions(inferencer, split):
    return list(inferencer.results(
        item.load for item in find_items(inferencer, split)[1]))


def rates(results, score, threshold):
    """False and true positives of all pixels, by counting."""
    labels = np.stack([result.anomaly for result in results])
    alarm = np.stack([result.map(score) for result in results]) >= threshold
    return alarm[labels == 0].mean(), alarm[labels == 1].mean()


@pytest.mark.parametrize('target', [dict(fpr=0.05), dict(tpr=0.95)])
def test_thresholds_keep_what_was_asked_for(cfg, base, members, target):
    inferencer = ABNNInferencer(cfg, str(base), members, 'cpu')
    results = predictions(inferencer, 'val')
    for row in choose_thresholds(cfg, inferencer.model, **target):
        false, true = rates(results, row['score'], row['threshold'])
        assert false <= 0.05 if 'fpr' in target else true >= 0.95
        assert (row['FPR'], row['TPR']) == pytest.approx(
            (100 * false, 100 * true))
        higher = np.nextafter(np.float32(row['threshold']), np.float32(99))
        lower = row['threshold'] - 1e-3
        if 'fpr' in target:
            assert rates(results, row['score'], lower)[0] > 0.05
        else:
            assert rates(results, row['score'], higher)[1] < 0.95


def test_members_carry_their_thresholds_into_every_output(
        cfg, base, members, tmp_path):
    model = build_segmentor(cfg, [base, members])
    noise = model.posterior.noise_settings
    store(members, 'temperatures', dict(centre=2.), noise)
    chosen = {row['score']: row['threshold']
              for row in choose_thresholds(cfg, model, fpr=0.2)}
    store(members, 'thresholds', chosen, noise)
    inferencer = ABNNInferencer(cfg, str(base), members, 'cpu')
    assert inferencer.thresholds == chosen
    assert inferencer.model.posterior.temperatures == dict(centre=2.)
    export_maps(inferencer, 'test', tmp_path, ['mask', 'csv', 'npy'])
    with open(tmp_path / 'csv' / 'energy.csv', newline='') as file:
        rows = {row['image']: row for row in csv.DictReader(file)}
    for result in predictions(inferencer, 'test'):
        mask = result.mask('energy')
        assert 0 < mask.mean() < 1
        np.testing.assert_array_equal(
            mask, result.maps['energy'] >= chosen['energy'])
        name = f'mask/energy/{result.name}.png'
        written = cv2.imread(str(tmp_path / name), cv2.IMREAD_UNCHANGED)
        np.testing.assert_array_equal(written, 255 * mask)
        row = rows[result.name]
        assert float(row['share_above']) == pytest.approx(
            mask.mean(), rel=1e-4)
        assert float(row['threshold']) == pytest.approx(
            chosen['energy'], rel=1e-4)


def test_thresholds_of_other_members_are_not_taken(cfg, base, members,
                                                   tmp_path):
    model = build_segmentor(cfg, base)
    store(members, 'thresholds', dict(entropy=1.),
          model.posterior.noise_settings)
    alone = tmp_path / 'alone.pth'
    state = norm_state(model)
    state['backbone.bn1.bias'] = state['backbone.bn1.bias'] + 1
    save_members(alone, [dict(state=state, meta={})], fingerprint(model))
    load_members(model, [members, alone])
    assert model.posterior.thresholds == {}
    inferencer = ABNNInferencer(cfg, str(base), alone, 'cpu')
    with pytest.raises(ValueError, match='no threshold.*--target-fpr'):
        predictions(inferencer, 'test')[0].mask('entropy')
    with pytest.raises(ValueError, match="'mask' needs a threshold"):
        export_maps(inferencer, 'test', tmp_path, ['mask'])


def test_without_ood_pixels_only_the_fpr_can_be_asked_for(cfg, base):
    cfg.val_dataloader.dataset.split = 'val'
    assert all((item['data_samples'].gt_anomaly.data != 1).all()
               for item in DATASETS.build(cfg.val_dataloader.dataset))
    model = build_segmentor(cfg, base)
    with pytest.raises(ValueError, match='none of the 3.*--target-fpr'):
        choose_thresholds(cfg, model, tpr=0.95)
    assert all(row['FPR'] <= 5 and np.isnan(row['TPR'])
               for row in choose_thresholds(cfg, model, fpr=0.05))
    with pytest.raises(ValueError, match='write 0.05 for 5 %'):
        choose_thresholds(cfg, model, fpr=5)


def test_class_labels_alone_are_enough_for_the_fpr(cfg, base):
    """As of mmseg's own datasets, such as Cityscapes."""
    cfg.val_dataloader.dataset.split = 'val'
    model = build_segmentor(cfg, base)
    expected = choose_thresholds(cfg, model, fpr=0.05)
    steps = cfg.val_dataloader.dataset.pipeline
    cfg.val_dataloader.dataset.pipeline = [
        *steps[:-1], dict(type='PackSegInputs')]
    found = choose_thresholds(cfg, model, fpr=0.05)
    assert [r['threshold'] for r in found] == [
        r['threshold'] for r in expected]
