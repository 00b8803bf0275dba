import copy

import pytest
import torch
from mmcv.cnn import build_norm_layer
from torch import nn

from abnn_mmseg.models import BNL, BNLGN, BNLIN, BNLLN, convert_norms

FAMILIES = [
    (nn.BatchNorm2d(6), (2, 6, 5, 4)),
    (nn.BatchNorm1d(6), (2, 6, 5)),
    (nn.BatchNorm3d(6), (2, 6, 3, 5, 4)),
    (nn.SyncBatchNorm(6), (2, 6, 5, 4)),
    (nn.LayerNorm(6), (2, 7, 6)),
    (nn.LayerNorm((5, 6)), (2, 5, 6)),
    (nn.GroupNorm(3, 6), (2, 6, 5, 4)),
    (nn.InstanceNorm2d(6, affine=True), (2, 6, 5, 4)),
    (nn.InstanceNorm2d(6, affine=True, track_running_stats=True),
     (2, 6, 5, 4)),
]
IDS = [f'{type(n).__name__}{i}' for i, (n, _) in enumerate(FAMILIES)]


def randomize(norm):
    with torch.no_grad():
        for value in norm.state_dict().values():
            if value.is_floating_point():
                value.copy_(torch.rand(value.shape) + 0.5)
    return norm.eval()


@pytest.mark.parametrize('norm,shape', FAMILIES, ids=IDS)
@pytest.mark.parametrize('alpha', [0., .3])
def test_without_noise_the_layer_is_the_norm_bit_for_bit(norm, shape, alpha):
    norm, x = randomize(copy.deepcopy(norm)), torch.randn(shape)
    expected, keys = norm(x), list(norm.state_dict())
    holder = nn.ModuleList([norm])
    report = convert_norms(holder, alpha=alpha)
    layer = holder[0]
    assert report.converted == {'0': report.converted['0']}
    assert layer is norm and list(layer.state_dict()) == keys
    assert torch.equal(layer(x), expected)
    layer.noise = 'channel'
    assert torch.equal(layer(x), expected) == (alpha == 0)


def test_noise_follows_the_equation():
    """(x - mu) / sigma * gamma * (1 + alpha * eps) + beta, eps per channel."""
    layer = randomize(BNL(6, alpha=0.3))
    layer.noise = 'channel'
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
    layer.noise = 'channel'
    ratio = (layer(x).detach() / plain - 1) / 0.3
    if not isinstance(layer, BNLLN):
        ratio = ratio.flatten(2).transpose(1, 2)
    eps = ratio.median(1).values
    assert torch.allclose(ratio, eps[:, None].expand_as(ratio), atol=1e-2)
    assert eps.std().item() == pytest.approx(1, abs=0.15)


def test_element_noise_differs_in_every_pixel():
    layer = randomize(BNL(2, alpha=0.3))
    layer.noise = 'element'
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
        layer.noise = 'channel'
        layer(x)
        assert bool(layer.running_mean.abs().sum() > 0) == moved


def test_noise_does_not_depend_on_train_or_eval():
    layer = BNL(4)
    layer.noise = 'channel'
    layer.eval()
    x = torch.randn(2, 4, 5, 5)
    assert not torch.equal(layer(x), layer(x))


def test_gradients_reach_gamma_and_beta():
    for layer in (BNL(4), BNLGN(4, num_groups=2), BNLIN(4)):
        layer.train()
        layer.noise = 'channel'
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
