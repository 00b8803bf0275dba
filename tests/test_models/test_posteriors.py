"""The posteriors ABNN is compared with, against the obvious computation."""
import copy
from functools import partial
from types import MethodType

import pytest
import torch
import torch.nn.functional as F
from mmengine.config import ConfigDict
from toys import bayesian_config, build, naive_networks, toy_config

from abnn_mmseg.models.posteriors.views import View, assign_views
from abnn_mmseg.models.windows import stitch, windows_of

SLIDE = ConfigDict(mode='slide', crop_size=(24, 24), stride=(16, 16))
WHOLE = ConfigDict(mode='whole')
METAS = [dict(ori_shape=(32, 48), img_shape=(32, 48))] * 2


def posterior_config(posterior: dict, **segmentor) -> dict:
    segmentor.setdefault('prediction', 'posterior_mean')
    return toy_config(
        type='BayesianEncoderDecoder', posterior=posterior, **segmentor)


def both(posterior: dict, test_cfg=WHOLE):
    """The plain toy, and the one with the posterior and its weights."""
    plain = build(toy_config(test_cfg=test_cfg))
    model = build(posterior_config(posterior, test_cfg=test_cfg))
    model.load_state_dict(plain.state_dict())
    return plain, model


def probabilities(network, images):
    return network.inference(images, copy.deepcopy(METAS)).softmax(1)


def assert_is_mean_of(model, images, networks):
    """The mean probability, and the disagreement that goes with it."""
    naive = torch.stack(networks)
    posterior = model.posterior
    assert len(naive) == len(posterior)
    assert naive.std(0).max() > 1e-3
    mean = naive.mean(0)
    entropy = torch.special.entr(naive).sum(2).mean(0)
    information = torch.special.entr(mean).sum(1) - entropy
    for i, sample in enumerate(model.predict(images)):
        actual = sample.seg_logits.data.exp()
        assert torch.allclose(actual, mean[i], atol=1e-5)
        assert torch.allclose(sample.uncertainty.mutual_information[0],
                              information[i].clamp_min(0), atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize('test_cfg', [WHOLE, SLIDE], ids=['whole', 'slide'])
@pytest.mark.parametrize('options', [
    dict(),
    dict(rate=0.4, draws_per_pass=3),
    dict(modules=['backbone.layer1', 'backbone.layer2'], rate=0.2),
    dict(modules='*.conv2', rate=0.1, draws_per_pass=1, share_trunk=False),
], ids=str)
def test_dropout_equals_networks_without_those_channels(
        options, test_cfg, images):
    plain, model = both(
        dict(type='DropoutPosterior', samples=4, **options), test_cfg)
    posterior = model.posterior
    networks = []
    for k in range(4):
        network = copy.deepcopy(plain)
        for name in posterior.sites:
            # The mask as a layer of its own, in a copy of the network.
            network.get_submodule(name).register_forward_hook(
                lambda m, a, y, n=name, k=k: torch.einsum(
                    'bchw,c->bchw', y, posterior.mask(n, y.shape[1])[k]))
        networks.append(probabilities(network, images))
    assert_is_mean_of(model, images, networks)


@torch.no_grad()
def test_dropout_drops_the_stated_share_and_keeps_the_mean():
    _, model = both(dict(type='DropoutPosterior', samples=2000, rate=0.25))
    mask = model.posterior.mask('decode_head.dropout', 8)
    assert set(mask.unique().tolist()) == {0., torch.tensor(4 / 3).item()}
    assert torch.allclose(mask.mean(0), torch.ones(8), atol=0.07)


@torch.no_grad()
def test_dropout_is_a_function_of_the_seed(images):
    def entropy(seed):
        _, model = both(dict(type='DropoutPosterior', samples=3, seed=seed,
                             modules='backbone.layer1', rate=0.3))
        return model.predict(images)[0].uncertainty.entropy

    torch.manual_seed(1)
    first = entropy(0)
    assert torch.equal(first, entropy(0))
    assert not torch.equal(first, entropy(1))


@torch.no_grad()
def test_dropout_computes_the_trunk_once(images, monkeypatch):
    runs = []
    _, model = both(dict(type='DropoutPosterior', samples=6,
                         draws_per_pass=2))
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(
                lambda m, a, y, name=name: runs.append(name))
    model.predict(images)
    assert runs.count('decode_head.conv_seg') == 3
    assert runs.count('backbone.conv1') == 1
    # The head's last convolution before its dropout layer.
    assert runs.count('decode_head.sep_bottleneck.1.pointwise_conv.conv') == 1


@pytest.mark.parametrize('options,message', [
    (dict(modules='neck'), "modules='neck'.*matches nothing"),
    (dict(modules='backbone.layer1'), 'write rate=0.1'),
    (dict(rate=1.), 'rate=1.0'),
    (dict(samples=0), 'samples=0'),
])
def test_mistakes_in_dropout_get_a_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        build(posterior_config(dict(type='DropoutPosterior', **options)))


@pytest.fixture
def checkpoints(tmp_path):
    """Three networks, one as mmengine saves it, one with half precision."""
    paths = [str(tmp_path / f'{seed}.pth') for seed in range(3)]
    for seed, path in enumerate(paths):
        state = build(toy_config(), seed=seed).state_dict()
        if seed == 1:
            state = {k: v.half() if v.dim() == 4 else v
                     for k, v in state.items()}
        torch.save(dict(state_dict=state) if seed else state, path)
    return paths


def load(network, path):
    content = torch.load(path)
    state = content.get('state_dict', content)
    network.load_state_dict({k: v.float() for k, v in state.items()})
    return network


@torch.no_grad()
@pytest.mark.parametrize('test_cfg', [WHOLE, SLIDE], ids=['whole', 'slide'])
def test_the_ensemble_equals_its_networks(checkpoints, test_cfg, images):
    plain, model = both(
        dict(type='EnsemblePosterior', checkpoints=checkpoints), test_cfg)
    own = copy.deepcopy(model.state_dict())
    assert_is_mean_of(model, images, [
        probabilities(load(plain, path), images) for path in checkpoints])
    for name, value in model.state_dict().items():
        assert torch.equal(value, own[name]), name


@torch.no_grad()
def test_a_copy_of_a_network_is_no_second_one(checkpoints, images, tmp_path):
    # Counters say how long it was trained; no output depends on them.
    content = torch.load(checkpoints[0])
    for name, value in content.items():
        if name.endswith('num_batches_tracked'):
            content[name] = value + 1
    torch.save(dict(state_dict=content), tmp_path / 'best.pth')
    _, model = both(dict(type='EnsemblePosterior', checkpoints=[
        *checkpoints, str(tmp_path / 'best.pth')]))
    with pytest.raises(ValueError, match='0.pth and .*best.pth hold the same'):
        model.predict(images)


@torch.no_grad()
def test_the_ensemble_sees_what_becomes_of_the_model(checkpoints, images):
    def make():
        return both(dict(type='EnsemblePosterior', checkpoints=checkpoints))[1]

    model, other = make(), make()
    model.predict(images)
    for changed in (model, other):
        changed.double().decode_head.align_corners = True
        own = changed.backbone.forward
        changed.backbone.forward = MethodType(
            lambda self, x: type(self).forward(self, 0.5 * x),
            changed.backbone)
    after = [changed.predict(images.double())[0].uncertainty.entropy
             for changed in (model, other)]
    assert torch.equal(*after)
    assert not torch.allclose(
        after[0], make().double().predict(images.double())[
            0].uncertainty.entropy)
    model.backbone.forward = lambda x: own(0.5 * x)
    with pytest.raises(ValueError, match='forward of backbone was replaced'):
        model.predict(images.double())


@torch.no_grad()
def test_the_ensemble_holds_one_network_at_a_time(checkpoints, images):
    """Half precision is converted for one pass only."""
    _, model = both(dict(type='EnsemblePosterior', checkpoints=checkpoints))
    weight = model.backbone.conv1.weight.clone()
    seen = []

    def forward(images, copy):
        seen.append(copy.backbone.conv1.weight.data_ptr())
        return copy.encode_decode(images, METAS)

    networks = model.posterior.make_networks(forward)
    for network in networks.chunks(range(3), View(), images):
        network(images)
    assert torch.equal(model.backbone.conv1.weight, weight)
    stored = [s['backbone.conv1.weight'] for s in model.posterior.states()]
    assert [s.dtype for s in stored] == [
        torch.float32, torch.float16, torch.float32]
    # Float weights are those of the mapped file, not a copy.
    assert seen[0] == stored[0].data_ptr()
    assert seen[2] == stored[2].data_ptr()


def test_a_deeper_network_is_no_part_of_an_ensemble(tmp_path, images):
    state = build(toy_config()).state_dict()
    state['backbone.layer2.2.conv1.weight'] = torch.ones(16, 16, 3, 3)
    torch.save(state, tmp_path / 'deeper.pth')
    _, model = both(dict(type='EnsemblePosterior',
                         checkpoints=[tmp_path / 'deeper.pth']))
    with pytest.raises(ValueError, match='deeper.pth is a larger network'):
        model.predict(images)


def test_a_changed_bit_in_an_ensemble_is_refused(tmp_path, images):
    path, network = tmp_path / 'bit.pth', build(toy_config())
    torch.save(network.state_dict(), path)
    content = bytearray(path.read_bytes())
    weight = network.backbone.bn1.weight.detach().numpy().tobytes()
    content[content.index(weight) + 2] ^= 1 << 7
    path.write_bytes(content)
    _, model = both(dict(type='EnsemblePosterior', checkpoints=[path]))
    with pytest.raises(ValueError, match='bit.pth is damaged'):
        model.predict(images)


def test_a_network_of_another_architecture_is_refused(tmp_path, images):
    path = tmp_path / 'other.pth'
    torch.save(build(toy_config(auxiliary=False)).state_dict(), path)
    _, model = both(dict(type='EnsemblePosterior', checkpoints=[path]))
    with pytest.raises(ValueError, match='other.pth.*another architecture'):
        model.predict(images)


def naive_view(network, images, scale, flip):
    dims = [] if flip is None else [3]
    x = images.flip(dims)
    if scale != 1:
        x = F.interpolate(x, (round(32 * scale), round(48 * scale)),
                          mode='bilinear')
    metas = [dict(ori_shape=x.shape[2:], img_shape=x.shape[2:])] * 2
    logits = network.encode_decode(x, metas)
    if scale != 1:
        logits = F.interpolate(logits, (32, 48), mode='bilinear')
    return logits.flip(dims)


@torch.no_grad()
def test_augmentation_equals_the_network_on_each_view(images):
    plain, model = both(dict(type='TTAPosterior', scales=(1.25, )))
    # Logits come out at the size of the image, whatever the view's size:
    # the head resizes once, where the naive way would resize twice.
    views = [naive_view(plain, images, 1, None),
             naive_view(plain, images, 1, 'horizontal')]
    x = F.interpolate(images, (40, 60), mode='bilinear')
    for dims in ([], [3]):
        views.append(plain.encode_decode(x.flip(dims), METAS).flip(dims))
    assert_is_mean_of(model, images, [v.softmax(1) for v in views])


@torch.no_grad()
def test_augmentation_works_on_windows():
    """One window as large as the image is the whole image, resized twice."""
    slide = ConfigDict(mode='slide', crop_size=(32, 48), stride=(32, 48))
    images = torch.randn(2, 3, 32, 48)
    plain, model = both(dict(type='TTAPosterior', scales=(0.75, )), slide)
    assert_is_mean_of(model, images, [
        naive_view(plain, images, scale, flip).softmax(1)
        for scale in (1, 0.75) for flip in (None, 'horizontal')])


def looks(network, images, view):
    """The network's probability on one view."""
    x = images if view.scale == 1 else F.interpolate(
        images, (round(32 * view.scale), round(48 * view.scale)),
        mode='bilinear')
    dims = [3] if view.flip else []
    return network.encode_decode(x.flip(dims), METAS).flip(dims).softmax(1)


@torch.no_grad()
@pytest.mark.parametrize('networks', [None, 5])
def test_every_network_takes_its_own_view(networks, images):
    views = dict(flips=('horizontal', ), scales=(0.5, ))
    plain, model = both(dict(
        type='BNLPosterior', alpha=0.5, samples=4, views=views,
        networks=networks))
    own = {f'{name}.{key}': value.clone()
           for name, layer in model.posterior.layers.items()
           for key, value in layer.state_dict().items()}
    model.posterior.set_members(
        [own, {k: v * 1.1 for k, v in own.items() if v.dim()}])
    posterior = model.posterior
    assert len(posterior) == networks or 8
    assert_is_mean_of(model, images, [
        looks(network, images, view) for network, view in zip(
            naive_networks(plain, posterior),
            posterior.views_of(len(posterior)))
    ])


@torch.no_grad()
@pytest.mark.parametrize('test_cfg', [WHOLE, SLIDE], ids=['whole', 'slide'])
def test_views_are_spread_over_every_kind_of_networks(
        test_cfg, checkpoints, images):
    """The mean of what each group of networks says of its own view."""
    views = dict(flips=('horizontal', ), scales=(0.5, ))
    for options in (dict(type='DropoutPosterior', rate=0.4, samples=6),
                    dict(type='EnsemblePosterior', checkpoints=checkpoints)):
        _, model = both(dict(options, views=views), test_cfg)
        posterior = model.posterior
        mean = model.predict(images)[0].seg_logits.data.exp()
        every, parts = posterior.views_of(len(posterior)), []
        for k, view in enumerate(every):
            posterior.views_of = lambda n, view=view: [view] * n
            networks = posterior.make_networks(
                partial(model.head_outputs, METAS))
            windows = windows_of(
                tuple(images.shape[2:]), model.test_cfg)
            [chunk] = networks.chunks([k], view, images)
            logits = stitch(partial(view.through, chunk), images, windows)
            parts.append(logits[0, 0].softmax(0))
        assert torch.stack(parts).std(0).max() > 1e-3
        assert torch.allclose(mean, torch.stack(parts).mean(0), atol=1e-5)


@pytest.mark.parametrize('members', [1, 2, 3, 4, 5])
@pytest.mark.parametrize('count', [1, 2, 4])
def test_views_and_members_meet_in_all_pairs(members, count):
    views = [View(scale) for scale in range(1, count + 1)]
    spread = assign_views(2 * members * count, views, members)
    first = max(members, count)
    assert set(spread[:first]) == set(views)
    pairs = [(k % members, view) for k, view in enumerate(spread)]
    assert len(set(pairs[:members * count])) == members * count
    if count > 1:
        for k in range(members * count):
            if k // members % 2 == 0:
                assert spread[k] != spread[k + members], 'antithetic'


def test_views_are_named_as_they_are_written():
    views = build(posterior_config(dict(
        type='DeterministicPosterior',
        views=dict(flips='vertical', scales=0.5)))).posterior.views
    assert [str(v) for v in views] == [
        'x1', 'x1 vertical', 'x0.5', 'x0.5 vertical']
    for wrong, sentence in ((dict(scale=2), 'write views='), (2, 'views=2'),
                            (dict(flips=('left', )), "holds 'left'"),
                            (dict(scales=(-1, )), 'positive factors')):
        with pytest.raises(ValueError, match=sentence):
            both(dict(type='DeterministicPosterior', views=wrong))


@torch.no_grad()
@pytest.mark.parametrize('options', [
    dict(type='DeterministicPosterior'), dict(type='EnsemblePosterior'),
    dict(type='TTAPosterior', flips=()),
    dict(type='DropoutPosterior', rate=0.)
], ids=lambda o: o['type'])
def test_a_posterior_of_one_network_is_the_model_bit_for_bit(options, images):
    plain, model = both(options)
    expected, actual = plain.predict(images)[0], model.predict(images)[0]
    assert torch.equal(expected.seg_logits.data.log_softmax(0),
                       actual.seg_logits.data)
    assert torch.equal(expected.pred_sem_seg.data, actual.pred_sem_seg.data)


@torch.no_grad()
def test_centres_are_the_networks_without_noise(checkpoints, images):
    plain, dropout = both(dict(type='DropoutPosterior', rate=0.5))
    dropout.prediction = 'centre'
    assert torch.allclose(dropout.predict(images)[0].seg_logits.data.exp(),
                          probabilities(plain, images)[0], atol=1e-6)
    _, ensemble = both(dict(type='EnsemblePosterior',
                            checkpoints=checkpoints))
    expected = ensemble.predict(images)[0].seg_logits.data
    ensemble.prediction = 'centre'
    assert torch.equal(ensemble.predict(images)[0].seg_logits.data, expected)


@torch.no_grad()
def test_members_fork_only_where_they_differ(images):
    """Norms that fine-tuning left alone do not push the fork forward."""
    model = build(bayesian_config(posterior=dict(scope='decode_head')))
    own = {f'{name}.{key}': value.clone()
           for name, layer in model.posterior.layers.items()
           for key, value in layer.state_dict().items()}
    changed = {k: v + 0.1 if k.startswith('decode_head') else v
               for k, v in own.items()}
    model.posterior.set_members([own, changed])
    assert all(n.startswith('decode_head') for n in model.posterior.bank())
    changed['backbone.layer2.0.bn1.running_mean'] += 0.1
    model.posterior.set_members([own, changed])
    assert 'backbone.layer2.0.bn1' in model.posterior.bank()


@torch.no_grad()
def test_the_centre_is_the_mean_of_the_noise_free_members(images):
    """Class map and probability from the members, maps from the draws."""
    plain = build(toy_config())
    model = build(bayesian_config(alpha=0.5, prediction='centre'))
    model.load_state_dict(plain.state_dict())
    norms = {f'{name}.{key}': value.clone()
             for name, layer in model.posterior.layers.items()
             for key, value in layer.state_dict().items()}
    states = [{k: v + shift if k.endswith('.bias') else v
               for k, v in norms.items()} for shift in (-0.3, 0.4)]
    model.posterior.set_members(states)
    expected = []
    for state in states:
        network = copy.deepcopy(plain)
        network.load_state_dict(state, strict=False)
        expected.append(probabilities(network, images)[0])
    centre = model.predict(images)[0]
    model.prediction = 'posterior_mean'
    drawn = model.predict(images)[0]
    mean = torch.stack(expected).mean(0)
    assert torch.allclose(centre.seg_logits.data.exp(), mean, atol=1e-5)
    assert torch.equal(centre.pred_sem_seg.data[0], mean.argmax(0))
    assert not torch.allclose(drawn.seg_logits.data.exp(), mean, atol=1e-3)
    assert torch.equal(centre.uncertainty.entropy, drawn.uncertainty.entropy)
