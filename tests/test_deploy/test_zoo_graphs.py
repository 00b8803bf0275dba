"""The networks of a graph are the posterior's, in MMSegmentation's models."""
import pytest
import torch
from mmengine.registry import init_default_scope
from small_zoo import small_config
from toys import build, naive_networks

from abnn_mmseg.deploy.onnx import (
    example_image,
    export_program,
    output_differences,
    save_onnx,
)
from abnn_mmseg.deploy.segmentor import DeployedSegmentor
from benchmarks.zoo_models import ZOO, bayesian, what_is_missing

# The configs of the first three pad the image; the head of SegNeXt draws
# random numbers. K-Net computes with kernels of classes, so no axis holds the
# images throughout.
NOT_IN_A_GRAPH = (
    'SegNeXt MSCAN-T', 'SAN ViT-B', 'Mask2Former R50', 'K-Net R50-D8')


def models_of(cfg):
    """The original model of a checkpoint, and the Bayesian one."""
    plain = build(cfg, seed=3)
    model = build(bayesian(cfg, alpha=0.2, samples=4))
    model.load_state_dict(plain.state_dict())
    model.scores = ('entropy', 'mutual_information')
    return plain, model


@torch.no_grad()
def assert_separate_networks(plain, model, **options):
    """On another image, of another size, than the module was made with."""
    deployed = DeployedSegmentor(model, example_image((64, 64)), **options)
    images = deployed.prepare(example_image((64, 96), seed=2))
    actual = torch.cat(list(deployed.draws(images)))[:, 0]
    metas = [dict(img_shape=images.shape[2:])]
    expected = torch.cat([
        model.to_logits(network.encode_decode(images, metas))
        for network in naive_networks(plain, model.posterior)])
    spread = expected.std(0).max()
    assert spread > 1e-3
    assert (actual - expected).abs().max() < 1e-4 * spread


@pytest.mark.parametrize('name', [
    name for name in ZOO if name not in NOT_IN_A_GRAPH])
def test_networks_of_a_graph_are_the_separate_networks(name):
    if missing := what_is_missing(name):
        pytest.skip(f'{name} {missing}')
    assert_separate_networks(*models_of(small_config(name)))


@pytest.fixture(scope='module')
def segformer():
    """Its first two stages. It holds one dropout under two names, so
    torch.export works with stand-ins for all of its modules."""
    init_default_scope('mmseg')
    cfg = small_config('SegFormer MiT-B0')
    for part in (cfg.backbone, cfg.decode_head):
        part.update({key: value[:2] for key, value in part.items()
                     if isinstance(value, (list, tuple)) and len(value) == 4})
    cfg.backbone.update(num_stages=2, num_layers=[1, 1], strides=[4, 2])
    _, model = models_of(cfg)
    ffn = model.backbone.layers[0][1][0].ffn
    assert ffn.layers[3] is ffn.layers[5]
    return model, export_program(model, (64, 64))


def test_a_model_that_holds_a_module_twice_keeps_its_networks(segformer):
    model, program = segformer
    run = program.module()
    image = example_image((64, 96), seed=2)
    with torch.no_grad():
        expected = DeployedSegmentor(model, image)(image)
        assert expected[-1].max() > 1e-2
        for actual, value in zip(run(image), expected):
            torch.testing.assert_close(actual, value, atol=1e-4, rtol=1e-4)


def test_onnxruntime_runs_every_network_of_segformer(segformer, tmp_path):
    pytest.importorskip('onnxruntime')
    pytest.importorskip('onnxscript')
    model, program = segformer
    path = tmp_path / 'segformer.onnx'
    save_onnx(program, model, path)
    differences = output_differences(
        model, path, example_image((64, 96), seed=2))
    assert list(differences) == ['probability', *model.scores]
    assert max(differences.values()) < 1e-4
