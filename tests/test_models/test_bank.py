import copy
from collections import Counter
from functools import partial

import pytest
import torch
from mmengine.config import ConfigDict
from toys import bayesian_config, build, naive_networks, toy_config

from abnn_mmseg.models.passes import handling
from abnn_mmseg.models.posteriors.sharing import SharedTrunk
from abnn_mmseg.models.windows import windows_of

SCOPES = [
    'all', 'backbone', 'decode_head', 'late', 'backbone.layer2',
    ['decode_head.c1_bottleneck', 'backbone.layer1.1.bn2'], '*.bn2'
]


def members_of(plain, count=2):
    """Other values in all norms, running statistics too."""
    members = []
    for m in range(count):
        other = build(toy_config(), seed=m + 1).state_dict()
        norms = {
            f'{name}.{key}': other[f'{name}.{key}']
            for name, layer in plain.named_modules()
            if isinstance(layer, torch.nn.BatchNorm2d)
            for key in layer.state_dict()
        }
        members.append(norms)
    return members


@torch.no_grad()
@pytest.mark.parametrize('scope', SCOPES, ids=str)
@pytest.mark.parametrize('with_members', [False, True])
@pytest.mark.parametrize('mode', ['whole', 'slide'])
def test_the_bank_equals_separate_networks(scope, with_members, mode, images):
    test_cfg = ConfigDict(mode=mode, crop_size=(24, 24), stride=(16, 16))
    plain = build(toy_config(test_cfg=test_cfg))
    model = build(bayesian_config(
        posterior=dict(scope=scope), test_cfg=test_cfg))
    model.load_state_dict(plain.state_dict())
    if with_members:
        model.posterior.set_members(members_of(plain))
    metas = [dict(ori_shape=(32, 48), img_shape=(32, 48))] * 2
    naive = torch.stack([
        network.inference(images, copy.deepcopy(metas)).softmax(1)
        for network in naive_networks(plain, model.posterior)
    ])
    assert len(naive) == len(model.posterior)
    spread = naive.std(0).max()
    assert spread > 1e-3
    for i, sample in enumerate(model.predict(images)):
        actual = sample.seg_logits.data.exp()
        assert torch.allclose(actual, naive.mean(0)[i], atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize('scope', ['all', 'decode_head', 'late'])
def test_the_chunk_size_does_not_matter(scope, images):
    maps = []
    for step in (1, 2, 3, 8):
        model = build(bayesian_config(
            samples=8, posterior=dict(scope=scope, draws_per_pass=step)))
        maps.append(model.predict(images)[0].uncertainty.mutual_information)
    for other in maps[1:]:
        assert torch.allclose(maps[0], other, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize('scope,after', [
    ('late', ['decode_head.sep_bottleneck', 'decode_head.conv_seg']),
    ('backbone.layer2', ['backbone.layer2', 'decode_head']),
    ('backbone', ['backbone.layer1', 'backbone.layer2', 'decode_head']),
])
def test_work_before_the_fork_is_done_once(scope, after, images, monkeypatch):
    """Convolutions run once, or once a chunk if noise comes before them."""
    runs = Counter()
    original = torch.nn.Conv2d._conv_forward

    def counting(self, *args):
        runs[self] += 1
        return original(self, *args)

    monkeypatch.setattr(torch.nn.Conv2d, '_conv_forward', counting)
    model = build(bayesian_config(
        samples=8, posterior=dict(scope=scope, draws_per_pass=2)))
    model.predict(images)
    # The first convolutions of a forking part still see shared input.
    first = {'backbone.layer2.0.conv1', 'backbone.layer2.0.downsample.0',
             'decode_head.c1_bottleneck.conv'}
    for name, module in model.named_modules():
        if module in runs and name not in first:
            expected = 4 if name.startswith(tuple(after)) else 1
            assert runs[module] == expected, name
    assert len(runs) > 15


@torch.no_grad()
def test_writing_into_a_shared_output_is_noticed():
    """A parent that adds in place must not spoil what is remembered."""

    class Block(torch.nn.Module):

        def __init__(self):
            super().__init__()
            self.clean = torch.nn.Linear(4, 4)
            self.noisy = torch.nn.Linear(4, 4)

        def forward(self, x, k):
            y = self.clean(x)
            y += 1
            return self.noisy(y) * k

    block, x = Block(), torch.randn(3, 4)
    trunk = SharedTrunk(block, [block.noisy])
    expected = block(x, torch.ones(()))
    for _ in range(3):
        started = trunk.start(0, vmapped=True)
        with handling(started.handlers({})):
            y = torch.vmap(lambda k: block(x, k))(torch.ones(2))
        trunk.mark_learned(0)
        assert torch.allclose(y[0], expected)


def test_draws_are_a_function_of_the_seed_alone():
    a, b = (build(bayesian_config(posterior=dict(seed=s))) for s in (3, 3))
    c = build(bayesian_config(posterior=dict(seed=4)))
    for name in a.posterior.layers:
        assert torch.equal(a.posterior.bank()[name][0],
                           b.posterior.bank()[name][0])
    assert not torch.equal(a.posterior.bank()['backbone.bn1'][0],
                           c.posterior.bank()['backbone.bn1'][0])


def test_scopes_and_members_share_their_draws():
    everywhere = build(bayesian_config()).posterior
    late = build(bayesian_config(posterior=dict(scope='late'))).posterior
    name = 'decode_head.bottleneck.bn'
    assert torch.equal(everywhere.bank()[name][0], late.bank()[name][0])


def test_antithetic_draws_cancel():
    posterior = build(bayesian_config(samples=6)).posterior
    for eps in posterior.draw().values():
        assert torch.equal(eps[:, 0::2], -eps[:, 1::2])
    plain = build(bayesian_config(
        samples=6, posterior=dict(antithetic=False))).posterior
    assert all(eps.sum(1).abs().max() > 0 for eps in plain.draw().values())


@torch.no_grad()
def test_the_bank_follows_the_norms_however_they_change():
    model = build(bayesian_config())
    before = model.posterior.bank()['backbone.bn1'][0].clone()
    model.backbone.bn1.weight.mul_(2)
    torch.testing.assert_close(
        model.posterior.bank()['backbone.bn1'][0], 2 * before)
    # What vector_to_parameters does; no version is counted.
    model.backbone.bn1.weight.data = model.backbone.bn1.weight.data * 2
    torch.testing.assert_close(
        model.posterior.bank()['backbone.bn1'][0], 4 * before)
    model.backbone.bn1.weight.data.mul_(2)
    torch.testing.assert_close(
        model.posterior.bank()['backbone.bn1'][0], 8 * before)


def test_the_bank_is_small():
    """Two vectors a layer and network, whatever the size of the model."""
    posterior = build(bayesian_config(samples=8)).posterior
    channels = sum(x.weight.numel() for x in posterior.layers.values())
    stored = sum(n[0].numel() + n[1].numel()
                 for n in posterior.bank().values())
    assert stored == 2 * 8 * channels


@torch.no_grad()
def test_element_noise_is_repeatable_and_leaves_the_generator_alone(images):
    model = build(bayesian_config(posterior=dict(noise='element')))
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first = model.predict(images)[0].uncertainty.entropy
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(first, model.predict(images)[0].uncertainty.entropy)


@torch.no_grad()
def test_predict_leaves_the_model_as_it_was(images):
    model = build(bayesian_config())
    before = model(images, mode='tensor')
    model.predict(images)
    assert torch.equal(model(images, mode='tensor'), before)
    assert not any('forward' in vars(m) for m in model.modules())


@torch.no_grad()
def test_networks_one_by_one_without_vmap(images, monkeypatch):
    expected = build(bayesian_config()).predict(images)[0].uncertainty.entropy
    monkeypatch.setattr(torch, 'vmap', None)
    model = build(bayesian_config(
        posterior=dict(draws_per_pass=1, share_trunk=False)))
    actual = model.predict(images)[0].uncertainty.entropy
    assert torch.allclose(actual, expected, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize('mode', ['whole', 'slide'])
def test_what_cannot_be_forked_runs_one_by_one(mode, images, monkeypatch):
    """Adding a forked tensor into a shared one, in place, has no meaning."""
    test_cfg = ConfigDict(mode=mode, crop_size=(24, 24), stride=(16, 16))

    def add_mean(forward, feature):
        shared = images.new_zeros(len(feature), 1, 1, 1)
        shared += feature.mean((1, 2, 3), keepdim=True)
        return forward(feature) + shared

    def model(**posterior):
        model = build(bayesian_config(
            posterior=dict(scope='decode_head', **posterior),
            test_cfg=test_cfg))
        head = model.decode_head
        head.cls_seg = partial(add_mean, head.cls_seg)
        return model

    forked = model()
    runs = Counter()
    forked.backbone.conv1.register_forward_hook(
        lambda conv, *_: runs.update([conv]))
    for _ in range(2):
        actual = forked.predict(images)[0].uncertainty.entropy
    assert forked.posterior.one_by_one
    windows = windows_of(tuple(images.shape[2:]), forked.test_cfg)
    assert set(runs.values()) == {2 * len(windows)}
    monkeypatch.setattr(torch, 'vmap', None)
    alone = model(draws_per_pass=1, share_trunk=False)
    expected = alone.predict(images)[0].uncertainty.entropy
    assert torch.allclose(actual, expected, atol=1e-6)


def test_a_wrong_input_does_not_slow_down_those_after_it(images):
    model = build(bayesian_config())
    with pytest.raises(RuntimeError), torch.no_grad():
        model.predict(images.double())
    assert not model.posterior.one_by_one


@torch.no_grad()
def test_one_draw_has_noise_without_members_too(images):
    plain = build(toy_config())
    model = build(bayesian_config(samples=1))
    model.load_state_dict(plain.state_dict())
    [network] = naive_networks(plain, model.posterior)
    expected = network.encode_decode(
        images, [dict(img_shape=images.shape[2:])] * 2).softmax(1)
    assert not torch.allclose(expected, plain.encode_decode(
        images, [dict(img_shape=images.shape[2:])] * 2).softmax(1), atol=1e-3)
    for sample, probability in zip(model.predict(images), expected):
        assert torch.allclose(
            sample.seg_logits.data.exp(), probability, atol=1e-5)


@torch.no_grad()
def test_members_are_told_from_those_before_in_the_same_memory(images):
    plain = build(toy_config())
    model = build(bayesian_config(
        alpha=0., samples=1, posterior=dict(scope='late')))
    model.load_state_dict(plain.state_dict())
    [member] = members_of(plain, 1)
    same = {name: plain.state_dict()[name] for name in member}
    model.posterior.set_members([member])
    expected = model.predict(images)[0].uncertainty.entropy.clone()
    for _ in range(10):
        model.posterior.set_members([same])
        model.predict(images)
        model.posterior.set_members([])
        # This list may lie where that of the first line of the loop was.
        model.posterior.set_members([member])
        entropy = model.predict(images)[0].uncertainty.entropy
        assert torch.equal(entropy, expected)


@torch.no_grad()
def test_members_that_are_written_to_are_seen(images):
    plain = build(toy_config())
    model = build(bayesian_config(
        alpha=0., samples=1, posterior=dict(scope='late')))
    model.load_state_dict(plain.state_dict())
    [member] = members_of(plain, 1)
    own = {name: plain.state_dict()[name].clone() for name in member}
    model.posterior.set_members([own])
    model.predict(images)
    for name, value in own.items():
        value.copy_(member[name])
    written = model.predict(images)[0].uncertainty.entropy
    model.posterior.set_members([member])
    expected = model.predict(images)[0].uncertainty.entropy
    assert torch.equal(written, expected)
