"""Mixed precision on a CPU, which is bfloat16, against float32."""
import pytest
import torch
from mmengine.runner import autocast
from sketches import abnn_config
from toys import bayesian_config, build

from abnn_mmseg.engine import read_members, train
from abnn_mmseg.engine.amp import test_with_amp as with_amp
from abnn_mmseg.engine.amp import train_with_amp
from abnn_mmseg.engine.tester import test as run_test
from abnn_mmseg.models.bayesian_norm import TrainingNoise
from abnn_mmseg.models.bnl import BNL, BNLGN, BNLIN, BNLLN


@pytest.mark.parametrize('layer,shape', [
    (BNL(8), (2, 8, 6, 6)), (BNLGN(8, 4), (2, 8, 6, 6)),
    (BNLIN(8), (2, 8, 6, 6)), (BNLLN(8), (2, 36, 8))])
@pytest.mark.parametrize('noise', ['channel', 'element'])
def test_every_layer_is_close_in_bfloat16(layer, shape, noise):
    layer.noise, x = TrainingNoise(noise, 0.1), torch.randn(shape)

    def outputs(inputs):
        torch.manual_seed(1)
        layer.zero_grad()
        y = layer(inputs)
        y.float().square().mean().backward()
        return y.float(), layer.weight.grad

    for exact, half in zip(outputs(x), outputs(x.bfloat16())):
        assert half.dtype == torch.float32
        assert torch.allclose(half, exact, atol=0.05, rtol=0.05)


@pytest.mark.parametrize('draws_per_pass', [1, 4])
@pytest.mark.parametrize('norm', [
    dict(type='BN'), dict(type='GN', num_groups=2)])
def test_maps_are_float32_and_close(images, norm, draws_per_pass):
    model = build(bayesian_config(norm, posterior=dict(
        draws_per_pass=draws_per_pass)))
    with torch.no_grad():
        exact = model.predict(images)[0].uncertainty.entropy
        with autocast():
            half = model.predict(images)[0].uncertainty.entropy
    assert half.dtype == torch.float32
    assert not torch.equal(half, exact)
    assert torch.allclose(half, exact, atol=0.1)


def test_forked_convolutions_run_in_bfloat16(images):
    model = build(bayesian_config())
    seen = []
    model.decode_head.bottleneck.conv.register_forward_hook(
        lambda module, inputs, output: seen.append(output.dtype))
    with torch.no_grad(), autocast():
        model.predict(images)
    assert set(seen) == {torch.bfloat16}


def test_alpha_zero_is_the_original_model_without_amp(images):
    model = build(bayesian_config(alpha=0.))
    with torch.no_grad():
        plain = model.encode_decode(images, [
            dict(ori_shape=images.shape[2:], img_shape=images.shape[2:])] * 2)
        predicted = model.predict(images)
    assert torch.equal(predicted[0].seg_logits.data, plain[0].log_softmax(0))


def test_members_train_and_test_in_bfloat16(sketch, base, tmp_path):
    """Close to float32's member, but not equal: it really was bfloat16."""
    members, metrics = {}, {}
    for name in ('float32', 'bfloat16'):
        cfg = abnn_config(sketch, tmp_path / name, base)
        if name == 'bfloat16':
            train_with_amp(cfg, 'bfloat16')
        train(cfg, members=1)
        path = tmp_path / name / 'member_0.pth'
        members[name] = read_members(path)[0]['state']
        if name == 'bfloat16':
            with_amp(cfg, 'bfloat16')
        metrics[name] = run_test(cfg, [base, path])
    for name, exact in members['float32'].items():
        half = members['bfloat16'][name]
        assert half.dtype == exact.dtype
        assert torch.allclose(half.float(), exact.float(), atol=0.05), name
    key = 'backbone.bn1.weight'
    assert not torch.equal(members['float32'][key], members['bfloat16'][key])
    assert metrics['bfloat16']['cal/pooled/NLL'] == pytest.approx(
        metrics['float32']['cal/pooled/NLL'], rel=0.05)


@pytest.mark.skipif(torch.cuda.is_available(), reason='a GPU has float16')
def test_float16_on_a_cpu_is_refused(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path, base)
    train_with_amp(cfg, 'float16')
    with pytest.raises(ValueError, match='bfloat16'):
        train(cfg)
    with pytest.raises(ValueError, match='float16 needs a GPU'):
        with_amp(cfg, 'float16')
