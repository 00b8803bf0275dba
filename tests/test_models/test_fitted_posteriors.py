"""Samples and Gaussians of norms are networks of the bank."""
import pytest
import torch
from test_bank import members_of
from toys import bayesian_config, build, toy_config

from abnn_mmseg.members.files import (
    fingerprint,
    load_members,
    norm_state,
    save_members,
)
from abnn_mmseg.models.posteriors.gaussian import (
    DIAGONAL,
    FACTOR,
    LAYER,
    PRIOR,
    TEMPERATURE,
)

KINDS = dict(SampledPosterior='hmc', LaplacePosterior='laplace',
             SWAGPosterior='swag')


def parameters(state):
    return {k: v for k, v in state.items()
            if k.endswith(('.weight', '.bias'))}


def fitted(model, kind='SWAGPosterior', rows=FACTOR, std=0.1):
    """A member of the model that is a Gaussian of about this deviation."""
    state = norm_state(model)
    generator = torch.Generator().manual_seed(0)
    for name, value in list(parameters(state).items()):
        size = 1 / std**2 if kind == 'LaplacePosterior' else std**2
        state[DIAGONAL + name] = torch.full_like(value, size)
        state[rows + name] = 0.1 * torch.randn(
            3, *value.shape, generator=generator) * size**0.5
    if kind == 'LaplacePosterior':
        state.update({PRIOR: torch.tensor(10.), TEMPERATURE: torch.tensor(1.)})
    return state


def of_kind(kind, **options):
    model = build(bayesian_config())
    other = build(dict(toy_config(), type='BayesianEncoderDecoder',
                       prediction='posterior_mean',
                       posterior=dict(type=kind, **options)))
    other.load_state_dict(model.state_dict())
    return other


@torch.no_grad()
def test_samples_are_separate_networks(images):
    plain = build(toy_config())
    model = of_kind('SampledPosterior')
    states = members_of(plain, 3)
    model.posterior.set_members(states)
    assert len(model.posterior) == 3
    images = images[:1]
    expected = []
    for state in states:
        network = build(toy_config())
        network.load_state_dict({**plain.state_dict(), **state})
        metas = [dict(ori_shape=(32, 48), img_shape=(32, 48))]
        expected.append(network.inference(images, metas).softmax(1))
    expected = torch.stack(expected).mean(0)[0]
    actual = model.predict(images)[0].seg_logits.data.exp()
    assert torch.allclose(actual, expected, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize('kind', ['LaplacePosterior', 'SWAGPosterior'])
def test_draws_of_a_gaussian_are_a_function_of_the_seed(kind, images):
    maps = []
    for seed in (0, 0, 1):
        model = of_kind(kind, samples=4, seed=seed)
        model.posterior.set_members([fitted(model, kind)])
        assert len(model.posterior) == 4
        maps.append(model.predict(images)[0].uncertainty.mutual_information)
    assert maps[0].max() > 1e-4
    assert torch.equal(maps[0], maps[1])
    assert not torch.equal(maps[0], maps[2])


@torch.no_grad()
@pytest.mark.parametrize('kind', ['LaplacePosterior', 'SWAGPosterior'])
def test_a_gaussian_without_width_is_its_mean(kind, images):
    model = of_kind(kind, samples=4, scale=0.)
    expected = model.predict(images)[0].seg_logits.data
    state = fitted(model, kind)
    model.posterior.set_members([state])
    assert len(model.posterior) == 1
    actual = model.predict(images)[0].seg_logits.data
    torch.testing.assert_close(actual, expected)
    model.posterior.scale = 1.
    assert len(model.posterior) == 4
    wide = model.predict(images)[0].seg_logits.data
    assert not torch.allclose(wide, expected, atol=1e-3)
    model.prediction = 'centre'
    centre = model.predict(images)[0].seg_logits.data
    torch.testing.assert_close(centre, expected)


def test_pairs_of_draws_lie_on_both_sides_of_the_mean():
    model = of_kind('SWAGPosterior', samples=4)
    state = fitted(model)
    model.posterior.set_members([state])
    first, second, *_ = model.posterior.norms()
    for name, mean in parameters(state).items():
        if name in first and not name.startswith('auxiliary'):
            torch.testing.assert_close(
                first[name] + second[name], 2 * mean, atol=1e-5, rtol=1e-5)


def test_settings_changed_after_construction_hold():
    model = of_kind('LaplacePosterior', samples=2)
    model.posterior.set_members([fitted(model, 'LaplacePosterior')])
    name = 'backbone.bn1.weight'
    before = model.posterior.norms()[0][name]
    for setting, value in dict(seed=3, temperature=0.25, prior_precision=1e6,
                               scale=2., antithetic=False).items():
        setattr(model.posterior, setting, value)
        after = model.posterior.norms()[0][name]
        if setting != 'antithetic':
            assert not torch.equal(before, after), setting
        before = after


@torch.no_grad()
@pytest.mark.parametrize('rows', [FACTOR, LAYER])
def test_only_the_scope_is_random(rows, images):
    model = of_kind('LaplacePosterior', samples=2, scope='decode_head')
    state = fitted(model, 'LaplacePosterior', rows)
    model.posterior.set_members([state])
    bank = model.posterior.bank()
    assert bank and all(n.startswith('decode_head') for n in bank)
    assert model.predict(images)[0].uncertainty.mutual_information.max() > 0


def saved(path, model, kind, state=None):
    save_members(path, [dict(
        state=state or norm_state(model), meta=dict(kind=kind))],
        fingerprint(model))
    return path


@pytest.mark.parametrize('kind', list(KINDS))
def test_a_file_knows_what_it_is_and_which_base_it_belongs_to(
        kind, tmp_path):
    model = of_kind(kind)
    state = (norm_state(model) if kind == 'SampledPosterior' else
             fitted(model, kind))
    path = saved(tmp_path / 'fit.pth', model, KINDS[kind], state)
    load_members(model, path)
    assert len(model.posterior.members) == 1
    wrong = of_kind('BNLPosterior')
    with pytest.raises(ValueError, match=f'use the posterior {kind}'):
        load_members(wrong, path)
    model.decode_head.conv_seg.weight.data += 1
    with pytest.raises(ValueError, match='belongs to another base'):
        load_members(model, path)


def test_members_that_were_trained_are_samples_too(tmp_path):
    model = of_kind('SampledPosterior')
    load_members(model, saved(tmp_path / 'members.pth', model, None))
    with pytest.raises(ValueError, match='trained members, .*BNLPosterior'):
        load_members(of_kind('SWAGPosterior'), tmp_path / 'members.pth')


@pytest.mark.parametrize('options, message', [
    (dict(type='SWAGPosterior', scale=-1.), 'scale=-1.0'),
    (dict(type='SWAGPosterior', samples=3), 'samples=3 is odd'),
    (dict(type='LaplacePosterior', temperature=0.), 'temperature=0.0'),
    (dict(type='LaplacePosterior', prior_precision=-1.), 'prior_precision'),
    (dict(type='SampledPosterior', networks=0), 'networks=0')])
def test_bad_options_get_a_sentence(options, message, images):
    with pytest.raises(ValueError, match=message):
        build(dict(toy_config(), type='BayesianEncoderDecoder',
                   posterior=options)).predict(images)


@torch.no_grad()
def test_a_gaussian_is_told_from_one_before_in_the_same_memory(images):
    model = of_kind('SWAGPosterior')
    wide, narrow = fitted(model, std=0.3), fitted(model, std=0.01)
    model.posterior.set_members([wide])
    expected = model.predict(images)[0].uncertainty.entropy
    for _ in range(10):
        model.posterior.set_members([narrow])
        model.predict(images)
        model.posterior.set_members([])
        model.posterior.set_members([wide])
        entropy = model.predict(images)[0].uncertainty.entropy
        assert torch.equal(entropy, expected)
