"""Draws chosen by the likelihood of labelled images."""
import copy

import pytest
import torch
from mmengine.dataset import pseudo_collate
from mmseg.registry import DATASETS
from sketches import abnn_config, save_two_members
from toys import naive_networks

from abnn_mmseg.engine import train
from abnn_mmseg.engine.likelihood import weigh_draws
from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.engine.members import load_members, store

CANDIDATES = 6


@pytest.fixture
def members(sketch, base, tmp_path):
    """A config with candidates, its segmentor, and a file of two members."""
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.model.posterior.update(candidates=CANDIDATES, alpha=0.5)
    model = build_segmentor(cfg, cfg.load_from)
    path = tmp_path / 'members.pth'
    save_two_members(model, path)
    load_members(model, path)
    return cfg, model, path


def nll_of(network, model, items):
    """The obvious way: predict, pick the label's probability, average."""
    values = []
    for item in items:
        data = model.data_preprocessor(pseudo_collate([item]), False)
        [sample] = data['data_samples']
        labels = sample.gt_sem_seg.data[0].long()
        probability = network.encode_decode(
            data['inputs'], [sample.metainfo])[0].softmax(0)
        known = labels != 255
        values.append(-probability[:, known].gather(
            0, labels[known][None]).log().mean())
    return torch.stack(values).mean().item()


@torch.no_grad()
def test_likelihoods_are_those_of_separate_networks(members):
    cfg, model, _ = members
    nll = torch.tensor(weigh_draws(cfg, model, images=2)['nll'])
    assert nll.shape == (2, CANDIDATES) and nll.std() > 1e-4
    dataset = DATASETS.build(cfg.val_dataloader.dataset)
    count = len(dataset)
    items = [dataset[count // 4], dataset[3 * count // 4]]
    posterior = copy.copy(model.posterior)
    posterior.samples, posterior.candidates = CANDIDATES, None
    expected = [nll_of(network, model, items)
                for network in naive_networks(model, posterior)]
    assert nll.flatten().tolist() == pytest.approx(expected, abs=1e-4)


@torch.no_grad()
def test_the_best_draws_are_stored_and_used(members):
    cfg, model, path = members
    draws = weigh_draws(cfg, model, images=2)
    assert draws['seconds'] >= 0
    store(path, 'draws', draws, model.posterior.draw_settings)
    loaded = build_segmentor(cfg, path).posterior
    assert len(loaded) == 2 * loaded.samples
    every = copy.copy(loaded)
    every.samples, every.candidates = CANDIDATES, None
    name = next(iter(loaded.layers))
    for nll, best, eps in zip(draws['nll'], loaded.draw()[name],
                              every.draw()[name]):
        order = sorted(range(CANDIDATES), key=nll.__getitem__)
        assert torch.equal(best, eps[sorted(order[:loaded.samples])])
    # A network is the same, chosen or not.
    order = [sorted(range(CANDIDATES), key=nll.__getitem__)[:loaded.samples]
             for nll in draws['nll']]
    rows = [m * CANDIDATES + k for m, best in enumerate(order)
            for k in sorted(best)]
    assert torch.equal(loaded.bank()[name].scale,
                       every.bank()[name].scale[rows])


@torch.no_grad()
def test_draws_are_judged_over_all_views_at_the_size_of_the_labels(members):
    cfg, model, path = members
    cfg.model.posterior.views = dict(flips=(), scales=(0.5, ))
    cfg.model.resolution = 'decoder'
    both = build_segmentor(cfg, path)
    nll = torch.tensor(weigh_draws(cfg, both, images=1)['nll'])
    assert both.resolution == 'decoder'
    assert both.posterior.candidates == CANDIDATES
    parts = []
    for view in list(both.posterior.views):
        both.posterior.views = [view]
        parts.append(torch.tensor(weigh_draws(cfg, both, images=1)['nll']))
    assert not torch.allclose(*parts)
    assert torch.allclose(nll, (parts[0] + parts[1]) / 2, atol=1e-5)


@torch.no_grad()
def test_unknown_draws_are_refused_with_the_command(members):
    cfg, model, path = members
    images = torch.randn(1, 3, 32, 64)
    with pytest.raises(ValueError, match='candidates=6.*members.py draws'):
        model.predict(images)
    with pytest.raises(ValueError, match='judged with the members'):
        build_segmentor(cfg, cfg.load_from).predict(images)
    store(path, 'draws', dict(nll=[[1.] * CANDIDATES] * 2),
          model.posterior.draw_settings)
    build_segmentor(cfg, path).predict(images)
    cfg.model.posterior.seed = 1
    with pytest.raises(ValueError, match='seed 1.*members.py draws'):
        build_segmentor(cfg, path).predict(images)
    cfg.model.posterior.candidates = None
    build_segmentor(cfg, path).predict(images)


def test_nothing_to_choose_from_is_refused(members):
    cfg, _, path = members
    cfg.model.posterior.candidates = None
    with pytest.raises(ValueError, match='write candidates=16'):
        weigh_draws(cfg, build_segmentor(cfg, path))
    for wrong, sentence in ((dict(candidates=1, samples=2), 'fewer than'),
                            (dict(candidates=4, noise='element'), 'anew'),
                            (dict(candidates=5), 'candidates=5 is odd')):
        cfg.model.posterior.update(wrong)
        with pytest.raises(ValueError, match=sentence):
            build_segmentor(cfg, path)
        cfg.model.posterior.update(candidates=None, noise='channel')
    cfg.model.posterior.update(candidates=4, alpha=0.)
    with pytest.raises(ValueError, match='alpha is 0'):
        weigh_draws(cfg, build_segmentor(cfg, path))


def test_members_are_validated_before_their_draws_are_known(
        sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.model.posterior.candidates = CANDIDATES
    rows = train(cfg, members=2)
    assert [row['name'] for row in rows] == [
        'base', 'member 0', 'member 1', 'all 2']
