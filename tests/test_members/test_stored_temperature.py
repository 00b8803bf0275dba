import pytest
import torch
from mmseg.registry import DATASETS
from sketches import abnn_config, config, save_two_members

from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.members.files import (
    fingerprint,
    load_members,
    norm_state,
    save_members,
    store,
)
from abnn_mmseg.members.temperature import fit_on
from abnn_mmseg.utils.checkpoints import read_state_dict


def overconfident(sketch, base, folder):
    """A base that knows how frequent classes are, and exaggerates."""
    cfg = config(sketch, folder)
    count = torch.ones(15)
    for item in DATASETS.build(cfg.val_dataloader.dataset):
        labels = item['data_samples'].gt_sem_seg.data
        count += torch.bincount(labels[labels != 255].long(), minlength=15)
    state = read_state_dict(base)
    state['decode_head.conv_seg.weight'] *= 0.1
    state['decode_head.conv_seg.bias'] = 3 * count.log()
    torch.save(state, folder / 'overconfident.pth')
    return folder / 'overconfident.pth'


@pytest.fixture
def members(sketch, base, tmp_path):
    """A config, its segmentor, and a file of two members."""
    cfg = abnn_config(sketch, tmp_path, overconfident(sketch, base, tmp_path))
    model = build_segmentor(cfg, cfg.load_from)
    path = tmp_path / 'members.pth'
    save_two_members(model, path)
    load_members(model, path)
    return cfg, model, path


def test_the_temperature_is_fitted_stored_and_used(members):
    cfg, model, path = members
    rows = {row['prediction']: row for row in fit_on(cfg, model)}
    assert set(rows) == {'posterior_mean', 'centre', 'base'}
    for row in rows.values():
        assert row['after'] < row['before'] and row['temperature'] > 1.5
    values = {name: row['temperature'] for name, row in rows.items()}
    assert values['posterior_mean'] != values['centre']
    store(path, 'temperatures', values, model.posterior.noise_settings)
    for prediction in values:
        cfg.model.update(temperature='members', prediction=prediction)
        loaded = build_segmentor(cfg, path)
        assert loaded.current_temperature() == values[prediction]
    images = torch.randn(1, 3, 32, 64)
    with torch.no_grad():
        hot = loaded.predict(images)[0]
        loaded.temperature = 1.
        plain = loaded.predict(images)[0]
    assert torch.equal(hot.pred_sem_seg.data, plain.pred_sem_seg.data)
    assert torch.equal(hot.uncertainty.entropy, plain.uncertainty.entropy)
    power = plain.seg_logits.data.exp()**(1 / values[prediction])
    assert torch.allclose(hot.seg_logits.data.exp(), power / power.sum(0),
                          atol=1e-5)


def test_another_set_of_members_has_no_temperature(members, tmp_path):
    _, model, path = members
    store(path, 'temperatures', dict(posterior_mean=1.5),
          model.posterior.noise_settings)
    load_members(model, path)
    assert model.posterior.temperatures == dict(posterior_mean=1.5)
    state = norm_state(model)
    state['backbone.bn1.bias'] = state['backbone.bn1.bias'] + 1
    save_members(tmp_path / 'more.pth', [dict(state=state, meta={})],
                 fingerprint(model))
    load_members(model, [path, tmp_path / 'more.pth'])
    assert model.posterior.temperatures == {}
    model.temperature = 'members'
    with pytest.raises(ValueError, match='abnn members temperature'):
        model.predict(torch.randn(1, 3, 32, 64))


def test_a_temperature_holds_for_the_noise_it_was_fitted_to(members):
    cfg, model, path = members
    store(path, 'temperatures', dict(posterior_mean=1.5),
          model.posterior.noise_settings)
    cfg.model.update(temperature='members')
    cfg.model.posterior.samples += 2
    assert build_segmentor(cfg, path).current_temperature() == 1.5
    cfg.model.posterior.alpha = 0.37
    with pytest.raises(ValueError, match='alpha 0.37.*fit it with'):
        build_segmentor(cfg, path).current_temperature()
