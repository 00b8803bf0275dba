"""The posterior's whole interface is declared; settings hold at once."""
import re
from pathlib import Path

import pytest
import torch
from mmengine.config import ConfigDict
from toys import bayesian_config, build, toy_config

import abnn_mmseg
from abnn_mmseg.members.files import norm_state
from abnn_mmseg.models.posteriors import Posterior

ROOT = Path(abnn_mmseg.__file__).parent


def test_nobody_probes_a_posterior():
    probe = re.compile(r'(getattr|hasattr)\([^)]*posterior')
    found = [f'{path.name}: {line.strip()}' for path in ROOT.rglob('*.py')
             for line in path.read_text().splitlines() if probe.search(line)]
    assert not found


@pytest.mark.parametrize('kind', [
    'BNLPosterior', 'DeterministicPosterior', 'TTAPosterior',
    'DropoutPosterior', 'EnsemblePosterior', 'LaplacePosterior',
    'SWAGPosterior', 'SampledPosterior'])
def test_every_posterior_answers_every_question(kind):
    model = build(dict(bayesian_config(), posterior=dict(type=kind)))
    posterior = model.posterior
    for name, value in vars(Posterior).items():
        if isinstance(value, property):
            getattr(posterior, name)
    assert len(posterior) >= 1
    assert len(posterior.views_of(len(posterior))) == len(posterior)
    assert set(posterior.alphas()) == set(posterior.in_scope)
    if posterior.takes_members:
        posterior.set_members([])
    else:
        with pytest.raises(ValueError, match='has no members'):
            posterior.set_members([])


@torch.no_grad()
def test_settings_changed_after_construction_hold(images):
    model = build(bayesian_config(posterior=dict(seed=1)))
    before = model.predict(images)[0].uncertainty.entropy
    for name, value in dict(alpha=0.5, scope='decode_head', samples=6, seed=7,
                            antithetic=False, networks=5).items():
        setattr(model.posterior, name, value)
        expected = build(bayesian_config(posterior={
            key: getattr(model.posterior, key) for key in (
                'alpha', 'scope', 'samples', 'seed', 'antithetic',
                'networks')}))
        sample = model.predict(images)[0]
        assert torch.equal(
            sample.uncertainty.entropy,
            expected.predict(images)[0].uncertainty.entropy), name
        assert not torch.equal(sample.uncertainty.entropy, before), name
        assert sample.draws == len(model.posterior)
        before = sample.uncertainty.entropy
    model.posterior.antithetic, model.posterior.samples = True, 7
    with pytest.raises(ValueError, match='samples=7 is odd'):
        model.predict(images)


@torch.no_grad()
def test_settings_of_dropout_and_views_hold_too(images):
    options = dict(type='DropoutPosterior', rate=0.2, samples=4)
    model = build(toy_config(type='BayesianEncoderDecoder',
                             posterior=dict(options)))
    views = dict(flips='horizontal', scales=0.5)
    for change in (dict(seed=3), dict(rate=0.5), dict(samples=6),
                   dict(modules='backbone.layer1'), dict(views=views),
                   dict(views=None)):
        options.update(change)
        for name, value in change.items():
            setattr(model.posterior, name, value)
        expected = build(toy_config(type='BayesianEncoderDecoder',
                                    posterior=dict(options)))
        found, wanted = (m.predict(images)[0].uncertainty.entropy
                         for m in (model, expected))
        assert torch.equal(found, wanted), change


def test_a_scope_of_the_auxiliary_head_alone_is_refused():
    with pytest.raises(ValueError, match='auxiliary head'):
        build(bayesian_config(posterior=dict(scope='auxiliary_head')))


def test_windows_that_leave_pixels_out_are_refused():
    slide = ConfigDict(mode='slide', crop_size=(16, 16), stride=(24, 16))
    with pytest.raises(ValueError, match='stride=.24, 16. of test_cfg'):
        build(bayesian_config(test_cfg=slide))


@torch.no_grad()
def test_the_tolerance_is_judged_when_every_member_and_view_was_seen(images):
    """One member is of another opinion; the first two draws do not know."""
    views = dict(flips='horizontal', scales=0.5)
    model = build(bayesian_config(alpha=0.01, samples=4, posterior=dict(
        tolerance=0.02)))
    own = norm_state(model)
    other = {k: v * -3 if k.endswith('weight') else v for k, v in own.items()}
    model.posterior.set_members([own, own, other])
    early = model.predict(images)[0]
    assert early.draws >= 3
    model.posterior.tolerance = None
    exact = model.predict(images)[0]
    error = (early.seg_logits.data.exp() - exact.seg_logits.data.exp())
    assert error.square().sum(0).sqrt().mean() < 0.02
    model = build(bayesian_config(alpha=1e-6, samples=8, posterior=dict(
        tolerance=0.5, views=views)))
    assert model.predict(images)[0].draws == 4


@torch.no_grad()
def test_prediction_base_is_the_original_network_bit_for_bit(images):
    for posterior in (dict(scope='decode_head'), dict(scope='all'),
                      dict(precision='bfloat16'),
                      dict(views=dict(flips='horizontal', scales=0.5))):
        for mode in ('whole', 'slide'):
            test_cfg = ConfigDict(
                mode=mode, crop_size=(24, 24), stride=(16, 16))
            plain = build(toy_config(test_cfg=test_cfg))
            model = build(bayesian_config(
                alpha=0.4, prediction='base', posterior=posterior,
                test_cfg=test_cfg))
            model.load_state_dict(plain.state_dict())
            for actual, expected in zip(model.predict(images),
                                        plain.predict(images)):
                assert torch.equal(actual.pred_sem_seg.data,
                                   expected.pred_sem_seg.data)
                assert torch.equal(actual.seg_logits.data,
                                   expected.seg_logits.data.log_softmax(0))
                assert actual.uncertainty.mutual_information.max() > 1e-4


@torch.no_grad()
def test_bfloat16_draws_are_close_and_statistics_stay_float32(images):
    options = dict(alpha=0.3, samples=16)
    exact = build(bayesian_config(**options)).predict(images)[0]
    half = build(bayesian_config(
        posterior=dict(precision='bfloat16'), **options)).predict(images)[0]
    other = build(bayesian_config(
        posterior=dict(seed=1), **options)).predict(images)[0]
    assert half.uncertainty.entropy.dtype == torch.float32
    rounding = (half.uncertainty.entropy - exact.uncertainty.entropy).norm()
    luck = (other.uncertainty.entropy - exact.uncertainty.entropy).norm()
    assert 0 < rounding < luck / 3


@torch.no_grad()
@pytest.mark.parametrize(
    'norm', [None, dict(type='GN', num_groups=2)], ids=str)
@pytest.mark.parametrize('dtype', [torch.float64, torch.bfloat16,
                                   torch.float16], ids=str)
def test_models_of_another_type_predict_with_their_members(
        norm, dtype, images):
    model = build(bayesian_config(norm))
    own = norm_state(model)
    model.posterior.set_members(
        [own, {k: v * 1.1 if v.is_floating_point() else v
               for k, v in own.items()}])
    exact = model.predict(images)[0].uncertainty.entropy
    other = model.to(dtype).predict(images.to(dtype))[0].uncertainty.entropy
    assert other.dtype == torch.float32
    assert torch.allclose(other, exact, atol=0.3)


def test_a_model_may_be_built_and_used_in_inference_mode(images):
    with torch.inference_mode():
        inside = build(bayesian_config()).predict(images)[0]
    with torch.no_grad():
        outside = build(bayesian_config()).predict(images)[0]
    torch.testing.assert_close(
        inside.uncertainty.entropy, outside.uncertainty.entropy)


@torch.no_grad()
def test_the_default_type_of_torch_does_not_matter(images):
    model = build(bayesian_config())
    expected = model.predict(images)[0].uncertainty.entropy
    model = build(bayesian_config())
    torch.set_default_dtype(torch.float64)
    try:
        actual = model.predict(images)[0].uncertainty.entropy
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(actual, expected)


@torch.no_grad()
def test_nan_is_refused_and_not_called_class_zero(images):
    model = build(bayesian_config())
    broken = images.clone()
    broken[0, 0, 3, 3] = float('nan')
    with pytest.raises(ValueError, match='input of the segmentor'):
        model.predict(broken)
    model.decode_head.conv_seg.bias[0] = float('nan')
    with pytest.raises(ValueError, match='the prediction holds NaN'):
        model.predict(images)


@torch.no_grad()
@pytest.mark.parametrize('prediction', ['base', 'centre'])
def test_maps_of_nan_are_refused_where_the_class_map_is_well(prediction,
                                                             images):
    model = build(bayesian_config(alpha=1e12, prediction=prediction))
    with pytest.raises(ValueError, match='uncertainty of the draws holds NaN'):
        model.predict(images)
