import pytest
import torch
from torch import nn
from toys import bayesian_config, build

from abnn_mmseg.models import BayesianNorm, convert_norms


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


class LayerNorm2d(nn.Module):
    """As SAN and timm have it: channel first."""

    def __init__(self, channels, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels))
        self.bias = nn.Parameter(torch.rand(channels))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(variance + self.eps)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


@pytest.mark.parametrize('norm,shape', [
    (LayerNorm2d(6), (2, 6, 4, 5)),
    (nn.LayerNorm(6), (2, 9, 6)),
    (nn.GroupNorm(3, 6), (2, 6, 4, 5)),
    (nn.InstanceNorm2d(6, affine=True), (2, 6, 4, 5)),
    (nn.BatchNorm2d(6), (2, 6, 4, 5)),
])
@torch.no_grad()
def test_an_installed_network_is_the_norm_with_another_gamma(norm, shape):
    """Alone and in a batch of networks under vmap."""
    for value in norm.state_dict().values():
        if value.is_floating_point():
            value.copy_(torch.rand(value.shape) + 0.5)
    norm.eval()
    x, factor = torch.randn(shape), 1 + 0.3 * torch.randn(3, 6)
    expected, gamma = [], norm.weight.clone()
    for row in factor:
        norm.weight.copy_(gamma * row)
        expected.append(norm(x))
    norm.weight.copy_(gamma)
    holder = nn.ModuleList([norm])
    convert_norms(holder)
    layer = holder[0]
    scale, shift = layer.fold({**layer._parameters, **layer._buffers}, factor)
    from abnn_mmseg.models.bnl import Network

    def run(scale, shift, x):
        layer.network = Network(scale, shift)
        return layer(x)

    expected = torch.stack(expected)
    alone = torch.stack([run(*pair, x) for pair in zip(scale, shift)])
    assert torch.allclose(alone, expected, atol=1e-5)
    forked = torch.vmap(run, (0, 0, None))(scale, shift, x)
    assert torch.allclose(forked, expected, atol=1e-5)
    inputs = x.expand(3, *x.shape).clone()
    assert torch.allclose(
        torch.vmap(run)(scale, shift, inputs), expected, atol=1e-5)


def test_group_norm_models_get_the_bank_too(images):
    model = build(bayesian_config(norm=dict(type='GN', num_groups=2)))
    with torch.no_grad():
        [sample, _] = model.predict(images)
    assert set(model.conversion.converted.values()) == {'group'}
    assert sample.uncertainty.mutual_information.max() > 1e-4
