"""The plain module of a graph answers what the segmentor does."""
from functools import partial

import pytest
import torch
from mmengine.config import ConfigDict
from torch import nn
from toys import bayesian_config, build, toy_config

from abnn_mmseg.deploy.segmentor import (
    DeployedSegmentor,
    changes_of,
    output_names,
)
from abnn_mmseg.models.bayesian_norm import Network
from abnn_mmseg.models.convert import convert_norms
from abnn_mmseg.models.guaranteed import current_guarantees, settings_of
from abnn_mmseg.models.passes import handling
from abnn_mmseg.models.posteriors.gaussian import DIAGONAL
from abnn_mmseg.models.students import new_student
from abnn_mmseg.uncertainty.guarantees import Guarantee

PREPROCESSOR = dict(
    type='SegDataPreProcessor', mean=[120., 110., 100.], std=[50., 60., 70.],
    bgr_to_rgb=True)


def model_of(posterior=None, norm=None, members=0, **segmentor):
    model = build(bayesian_config(
        norm, posterior=posterior, data_preprocessor=PREPROCESSOR,
        **segmentor))
    generator = torch.Generator().manual_seed(1)
    model.posterior.set_members([{
        f'{name}.weight': layer.weight.detach() * (
            0.8 + 0.4 * torch.rand(layer.weight.shape, generator=generator))
        for name, layer in model.posterior.layers.items()
    } for _ in range(members)])
    return model


def image_of(size=(40, 56)):
    return torch.randint(0, 256, (1, *size, 3), dtype=torch.uint8)


@torch.no_grad()
def assert_same(model, **options):
    """On another image than the one that the module was made with."""
    deployed = DeployedSegmentor(model, image_of(), **options)
    image = image_of((33, 64))
    probability, *maps = deployed(image)
    data = dict(inputs=[image[0].permute(2, 0, 1)])
    sample, = model.predict(model.data_preprocessor(data)['inputs'])
    torch.testing.assert_close(
        probability[0], sample.seg_logits.data.softmax(0), atol=1e-5, rtol=0)
    for name, map_ in zip(model.scores, maps):
        torch.testing.assert_close(
            map_, sample.uncertainty.get(name), atol=1e-5, rtol=0)


@pytest.mark.parametrize('scope', ['all', 'decode_head', 'late'])
@pytest.mark.parametrize('draws_per_pass', [None, 1, 3])
def test_any_scope_in_any_chunks(scope, draws_per_pass):
    assert_same(model_of(dict(scope=scope)), draws_per_pass=draws_per_pass)


@pytest.mark.parametrize('prediction', ['posterior_mean', 'centre'])
def test_draws_of_a_fitted_gaussian(prediction):
    model = build(toy_config(
        type='BayesianEncoderDecoder', prediction=prediction,
        posterior=dict(type='SWAGPosterior', samples=4),
        data_preprocessor=PREPROCESSOR))
    model.posterior.set_members([{
        f'{prefix}{name}.{key}': factor * getattr(layer, key).detach().abs()
        for name, layer in model.posterior.layers.items()
        for key in ('weight', 'bias')
        for prefix, factor in (('', 1), (DIAGONAL, 0.05))}])
    assert_same(model)


def test_members_their_centre_and_a_temperature():
    assert_same(model_of(members=2))
    assert_same(model_of(members=2, prediction='centre', temperature=1.5))


def test_a_head_that_scores_masks(monkeypatch):
    model = model_of()
    monkeypatch.setattr(model, '_scores_masks', lambda: True)
    assert_same(model)


def test_a_norm_that_does_not_fold():
    assert_same(model_of(norm=dict(type='GN', num_groups=2)))


class LayerNorm2d(nn.LayerNorm):
    """As in mmpretrain: a norm with a forward of its own."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def test_every_row_gets_its_network_in_a_norm_of_its_own_kind():
    layer = nn.Sequential(LayerNorm2d(6))
    convert_norms(layer)
    scale, shift, x = torch.randn(2, 6), torch.randn(2, 6), torch.randn(
        2, 6, 4, 5)

    def run(x, *affine):
        network = partial(layer[0].as_network, Network(*affine))
        with handling({layer[0]: network}):
            return layer(x)

    y = run(x, scale, shift)
    for i in range(2):
        torch.testing.assert_close(
            y[i:i + 1], run(x[i:i + 1], scale[i], shift[i]))


def test_every_network_has_its_view_in_the_graph():
    views = dict(flips=('horizontal', ), scales=(0.5, ))
    assert_same(model_of(dict(views=views)))
    assert_same(model_of(dict(views=views), prediction='base'))


def test_the_original_network():
    assert_same(model_of(dict(alpha=0.)))


@torch.no_grad()
def test_what_comes_before_the_noise_sees_one_row():
    model = model_of(dict(scope='late'))
    image = image_of()
    deployed = DeployedSegmentor(model, image)
    rows = {}
    for name in ('backbone.conv1', 'decode_head.sep_bottleneck.1'):
        model.get_submodule(name).register_forward_hook(
            lambda module, args, output, name=name: rows.setdefault(
                name, []).append(len(args[0])))
    deployed(image)
    assert rows == {'backbone.conv1': [1], 'decode_head.sep_bottleneck.1': [4]}


def test_what_a_graph_cannot_hold_is_refused():
    for model, word in (
            (model_of(dict(noise='element')), "noise='channel'"),
            (build(dict(bayesian_config(), posterior=dict(
                type='TTAPosterior'))), 'TTAPosterior'),
            (build(dict(bayesian_config(), posterior=dict(
                type='DropoutPosterior'))), 'DropoutPosterior')):
        with pytest.raises(ValueError, match=word):
            DeployedSegmentor(model, image_of())


def promise(model):
    """Give a model a label set that holds for how it is set."""
    settings = settings_of(model, model.posterior, 'label-set',
                           model.prediction, model.current_temperature())
    model.posterior.guarantees = [
        Guarantee('label-set', 0.1, 0.3, 10, 'val', settings, 'weights')]
    return model


@torch.no_grad()
@pytest.mark.parametrize('options, change', [
    (dict(test_cfg=ConfigDict(mode='slide', crop_size=(24, 24),
                              stride=(16, 16))), 'whole images'),
    (dict(posterior=dict(tolerance=0.5)), 'all networks'),
    (dict(posterior=dict(precision='bfloat16')), 'in float32')])
def test_a_graph_that_is_not_the_model_says_so_and_promises_nothing(
        options, change):
    model = promise(model_of(**options))
    assert current_guarantees(model)
    [reason] = changes_of(model)
    assert change in reason
    assert output_names(model) == ['probability', *model.scores]
    assert len(DeployedSegmentor(model, image_of())(image_of())) == 6


@torch.no_grad()
def test_a_student_has_its_label_sets_in_the_graph():
    model = build(toy_config(
        type='BayesianEncoderDecoder', data_preprocessor=PREPROCESSOR,
        posterior=dict(type='DistilledPosterior')))
    model.posterior.set_members([
        new_student(model, torch.randn(1, 3, 32, 48)).state_dict()])
    promise(model)
    image = image_of()
    outputs = dict(zip(output_names(model),
                       DeployedSegmentor(model, image)(image)))
    data = dict(inputs=[image[0].permute(2, 0, 1)])
    [sample] = model.predict(model.data_preprocessor(data)['inputs'])
    assert torch.equal(
        outputs['label_set'][0], sample.guaranteed.get('label-set'))


def test_a_graph_takes_three_channels_only():
    cfg = bayesian_config(data_preprocessor=dict(type='SegDataPreProcessor'))
    cfg['backbone']['in_channels'] = 4
    with pytest.raises(ValueError, match='images of 4 channels; a graph'):
        DeployedSegmentor(build(cfg), torch.zeros(1, 32, 32, 3))
