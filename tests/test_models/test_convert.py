import pytest
import torch
from torch import nn
from toys import bayesian_config, build

from abnn_mmseg.models import BNL, BNLLN, BayesianNorm, convert_norms
from abnn_mmseg.models.bayesian_norm import bayesian_layers


def network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.GroupNorm(2, 8),
        nn.Sequential(nn.InstanceNorm2d(8), nn.InstanceNorm2d(8, affine=True)),
        nn.BatchNorm2d(8, track_running_stats=False),
        nn.LayerNorm(4, elementwise_affine=False))


def test_conversion_keeps_identity_tensors_and_hooks():
    model, calls = network(), []
    norm, weight = model[1], model[1].weight
    norm.register_forward_hook(lambda *args: calls.append(1))
    convert_norms(model)
    assert model[1] is norm and norm.weight is weight
    assert isinstance(norm, BayesianNorm)
    model[:2](torch.randn(1, 3, 8, 8))
    assert calls == [1]


def test_the_report_says_what_was_left_and_why():
    report = convert_norms(network())
    assert report.converted == {
        '1': 'batch', '2': 'group', '3.1': 'instance'}
    assert report.left == {
        '3.0': 'no affine parameters', '4': 'no running statistics',
        '5': 'no affine parameters'}
    assert report.summary() == (
        '1 batch, 1 group, 1 instance; left 1 instance (3.0): no affine '
        'parameters; left 1 batch (4): no running statistics; left 1 layer '
        '(5): no affine parameters')


def test_patterns_include_and_exclude():
    report = convert_norms(network(), include=['3', '1'], exclude=['3.*'])
    assert list(report.converted) == ['1']
    assert report.left['2'] == 'excluded'


@pytest.mark.parametrize('options,message', [
    (dict(include=['1', 'backbone']), "convert='backbone' of the segmentor"),
    (dict(exclude='neck.*'), r"exclude='neck\.\*' .* none of its 6 norms"),
])
def test_a_pattern_that_matches_nothing_is_a_mistake(options, message):
    with pytest.raises(ValueError, match=message):
        convert_norms(network(), **options)


def test_an_excluded_layer_of_norm_cfg_is_the_plain_norm_again():
    model = nn.ModuleList([BNL(4), BNLLN(4)])
    report = convert_norms(model, exclude='0')
    assert report.left == {'0': 'excluded'}
    assert type(model[0]) is nn.BatchNorm2d
    assert list(bayesian_layers(model)) == ['1']


def test_a_frozen_text_encoder_stays_as_it_is():
    model = nn.ModuleDict(dict(
        text_encoder=nn.Sequential(nn.LayerNorm(4)), head=nn.LayerNorm(4)))
    model['text_encoder'].requires_grad_(False)
    report = convert_norms(model)
    assert list(report.converted) == ['head']
    assert report.left == {'text_encoder.0': 'inside a frozen text encoder'}


def test_a_norm_of_no_family_is_reported():
    class StrangeNorm(nn.Module):

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

    report = convert_norms(nn.Sequential(StrangeNorm(), nn.LayerNorm(4)))
    assert report.summary() == (
        '1 layer; left 1 StrangeNorm (0): unknown kind of norm')


def test_group_norm_models_get_the_bank_too(images):
    model = build(bayesian_config(norm=dict(type='GN', num_groups=2)))
    with torch.no_grad():
        [sample, _] = model.predict(images)
    assert set(model.conversion.converted.values()) == {'group'}
    assert sample.uncertainty.mutual_information.max() > 1e-4
