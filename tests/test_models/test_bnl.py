import copy
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from mmcv.cnn import build_norm_layer
from mmseg.models.utils import LayerNorm2d
from torch import nn

from abnn_mmseg.models import BNL, BNLGN, BNLIN, BNLLN, convert_norms
from abnn_mmseg.models.bayesian_norm import Network, TrainingNoise
from abnn_mmseg.models.passes import handling


class TimmLayerNorm2d(nn.LayerNorm):
    """As timm has it, there called ``LayerNorm2d``."""

    def forward(self, x):
        x = F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape,
                         self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class BatchNormAct2d(nn.BatchNorm2d):
    """As timm has it: an activation inside the norm."""

    def forward(self, x):
        return super().forward(x).relu()


class LayerNorm(nn.Module):
    """As ConvNeXt's authors wrote it, and many backbones after them."""

    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(variance + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


FAMILIES = [
    (nn.BatchNorm2d(6), (2, 6, 5, 4)),
    (nn.BatchNorm1d(6), (2, 6, 5)),
    (nn.BatchNorm1d(6), (7, 6)),
    (nn.BatchNorm3d(6), (2, 6, 3, 5, 4)),
    (nn.SyncBatchNorm(6), (2, 6, 5, 4)),
    (nn.SyncBatchNorm(6), (2, 6, 5)),
    (nn.LayerNorm(6), (2, 7, 6)),
    (nn.LayerNorm(6), (2, 5, 4, 6)),
    (nn.LayerNorm(6, bias=False), (2, 7, 6)),
    (nn.LayerNorm((5, 6)), (2, 5, 6)),
    (LayerNorm2d(6), (2, 6, 5, 4)),
    (TimmLayerNorm2d(6), (2, 6, 5, 4)),
    (LayerNorm(6), (2, 6, 5, 4)),
    (nn.GroupNorm(3, 6), (2, 6, 5, 4)),
    (nn.GroupNorm(3, 6), (2, 6, 5)),
    (nn.InstanceNorm1d(6, affine=True), (2, 6, 5)),
    (nn.InstanceNorm2d(6, affine=True), (2, 6, 5, 4)),
    (nn.InstanceNorm3d(6, affine=True), (2, 6, 3, 5, 4)),
    (nn.InstanceNorm2d(6, affine=True, track_running_stats=True),
     (2, 6, 5, 4)),
    (BatchNormAct2d(6), (2, 6, 5, 4)),
]
IDS = [f'{type(n).__name__}{i}' for i, (n, _) in enumerate(FAMILIES)]


def randomize(norm):
    with torch.no_grad():
        for value in norm.state_dict().values():
            if value.is_floating_point():
                value.copy_(torch.rand(value.shape) + 0.5)
    return norm.eval()


def random_input(shape, memory_format=torch.contiguous_format):
    x = torch.randn(shape)
    return x.contiguous(memory_format=memory_format) if x.dim() == 4 else x


@pytest.mark.parametrize('norm,shape', FAMILIES, ids=IDS)
@pytest.mark.parametrize('alpha', [0., .3])
@pytest.mark.parametrize('memory_format', [
    torch.contiguous_format, torch.channels_last], ids=['first', 'last'])
def test_without_noise_the_layer_is_the_norm_bit_for_bit(
        norm, shape, alpha, memory_format):
    norm = randomize(copy.deepcopy(norm))
    x = random_input(shape, memory_format)
    expected, keys = norm(x), list(norm.state_dict())
    weight = norm.weight
    holder = nn.ModuleList([norm])
    report = convert_norms(holder, alpha=alpha)
    layer = holder[0]
    assert list(report.converted) == ['0'] and not report.left
    assert layer is norm and layer.weight is weight
    assert list(layer.state_dict()) == keys
    assert torch.equal(layer(x), expected)
    assert layer(x).stride() == expected.stride()
    layer.noise = TrainingNoise('channel', layer.alpha)
    assert torch.equal(layer(x), expected) == (alpha == 0)


@pytest.mark.parametrize('norm,shape', FAMILIES, ids=IDS)
@pytest.mark.parametrize('memory_format', [
    torch.contiguous_format, torch.channels_last], ids=['first', 'last'])
@torch.no_grad()
def test_a_handled_layer_is_the_norm_with_another_gamma(
        norm, shape, memory_format):
    """Alone, at a fork, and after one: n networks under vmap."""
    norm = randomize(copy.deepcopy(norm))
    x = random_input(shape, memory_format)
    factor = 1 + 0.3 * torch.randn(3, *norm.weight.shape)
    expected, gamma = [], norm.weight.clone()
    for row in factor:
        norm.weight.copy_(gamma * row)
        expected.append(norm(x))
    expected = torch.stack(expected)
    norm.weight.copy_(gamma)
    holder = nn.ModuleList([norm])
    convert_norms(holder)
    layer = holder[0]
    eps = torch.full_like(layer.weight, layer.fold_eps)
    scale, shift = layer.fold(
        {name: getattr(layer, name) for name in layer.FOLDED}, factor, eps)

    def run(x, scale, shift, vmapped=False):
        network = Network(scale, shift, vmapped)
        with handling({layer: partial(layer.as_network, network)}):
            return layer(x)

    alone = [run(x, *network) for network in zip(scale, shift)]
    forking = torch.vmap(partial(run, x, vmapped=True))(scale, shift)
    forked = torch.vmap(partial(run, vmapped=True))(
        x.expand(3, *x.shape), scale, shift)
    for actual in (torch.stack(alone), forking, forked):
        assert torch.allclose(actual, expected, atol=1e-5)


def test_noise_follows_the_equation():
    """(x - mu) / sigma * gamma * (1 + alpha * eps) + beta, eps per channel."""
    layer = randomize(BNL(6, alpha=0.3))
    layer.noise = TrainingNoise('channel', layer.alpha)
    x = torch.randn(3, 6, 4, 5)
    torch.manual_seed(7)
    y = layer(x)
    torch.manual_seed(7)
    eps = torch.randn(3, 6)[..., None, None]
    sigma = torch.sqrt(layer.running_var + layer.eps)[:, None, None]
    normalized = (x - layer.running_mean[:, None, None]) / sigma
    gamma = layer.weight[:, None, None] * (1 + 0.3 * eps)
    assert torch.allclose(y, normalized * gamma + layer.bias[:, None, None],
                          atol=1e-5)


@pytest.mark.parametrize('layer,shape', [
    (BNL(6, alpha=.3, statistics='update'), (64, 6, 5, 4)),
    (BNLLN(6, alpha=.3), (64, 7, 6)),
    (BNLGN(6, num_groups=2, alpha=.3), (64, 6, 5, 4)),
    (BNLIN(6, alpha=.3), (64, 6, 5, 4)),
])
def test_every_family_has_the_same_relative_noise(layer, shape):
    """(y - beta) / (plain - beta) - 1 is alpha * eps, alike in a channel."""
    layer.train()
    x = torch.randn(shape)
    plain = layer(x).detach()
    layer.noise = TrainingNoise('channel', layer.alpha)
    ratio = (layer(x).detach() / plain - 1) / 0.3
    if not isinstance(layer, BNLLN):
        ratio = ratio.flatten(2).transpose(1, 2)
    eps = ratio.median(1).values
    assert torch.allclose(ratio, eps[:, None].expand_as(ratio), atol=1e-2)
    assert eps.std().item() == pytest.approx(1, abs=0.15)


def test_element_noise_differs_in_every_pixel():
    layer = randomize(BNL(2, alpha=0.3))
    layer.noise = TrainingNoise('element', layer.alpha)
    x = torch.ones(1, 2, 4, 4)
    assert layer(x)[0, 0].unique().numel() == 16


def test_norm_cfg_builds_each_family_under_the_usual_name():
    for kind, abbreviation in (('BNL', 'bn1'), ('BNLLN', 'ln1'),
                               ('BNLGN', 'gn1'), ('BNLIN', 'in1')):
        name, layer = build_norm_layer(dict(type=kind, alpha=.2), 32, 1)
        assert name == abbreviation and layer.alpha == .2


def test_frozen_statistics_survive_training_and_updated_ones_do_not():
    x = torch.randn(8, 4, 6, 6) * 3 + 1
    for statistics, moved in (('frozen', False), ('update', True)):
        layer = BNL(4, statistics=statistics).train()
        layer.noise = TrainingNoise('channel', layer.alpha)
        layer(x)
        assert bool(layer.running_mean.abs().sum() > 0) == moved


def test_noise_does_not_depend_on_train_or_eval():
    layer = BNL(4)
    layer.noise = TrainingNoise('channel', layer.alpha)
    layer.eval()
    x = torch.randn(2, 4, 5, 5)
    assert not torch.equal(layer(x), layer(x))


def test_gradients_reach_gamma_and_beta():
    custom = nn.ModuleList([LayerNorm2d(4)])
    convert_norms(custom)
    for layer in (BNL(4), BNLGN(4, num_groups=2), BNLIN(4), custom[0]):
        layer.train()
        layer.noise = TrainingNoise('channel', layer.alpha)
        layer(torch.randn(2, 4, 5, 5)).square().sum().backward()
        assert layer.weight.grad.abs().sum() > 0
        assert layer.bias.grad.abs().sum() > 0


@pytest.mark.parametrize('alpha', [-0.1, float('nan'), float('inf'), 'big'])
def test_a_senseless_alpha_is_refused(alpha):
    with pytest.raises(ValueError, match='alpha='):
        BNL(4, alpha=alpha)


def test_unknown_statistics_are_refused():
    with pytest.raises(ValueError, match="statistics='batch'"):
        BNL(4, statistics='batch')
