"""One ONNX file, and one exported program, for all networks."""
import json
import os

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmseg.registry import MODELS
from torch import nn

from abnn_mmseg.deploy.onnx import (
    example_image,
    export_program,
    output_differences,
    save_onnx,
)
from abnn_mmseg.deploy.segmentor import DeployedSegmentor
from abnn_mmseg.engine.loading import bayesian_model_cfg

DEMO = 'configs/abnn_deeplabv3plus_muad-sketch.py'
R50_D8 = 'configs/abnn_deeplabv3plus_muad.py'
SIZES = ((64, 96), (97, 131))


def model_of(config, draws):
    """With random weights; a classifier near zero would hide mistakes."""
    cfg = Config.fromfile(config)
    cfg.model.posterior.samples = draws
    cfg.model.scores = ('entropy', 'mutual_information', 'energy')
    model = MODELS.build(bayesian_model_cfg(cfg)).eval()
    nn.init.normal_(model.decode_head.conv_seg.weight, std=0.1)
    return model


def assert_right(path, model):
    for size in SIZES:
        differences = output_differences(
            model, path, example_image(size, seed=2))
        assert list(differences) == ['probability', *model.scores]
        assert max(differences.values()) < 1e-4


@pytest.fixture(scope='module')
def demo():
    pytest.importorskip('onnxruntime')
    pytest.importorskip('onnxscript')
    init_default_scope('mmseg')
    torch.manual_seed(0)
    model = model_of(DEMO, draws=4)
    return model, export_program(model, (64, 96))


def test_the_program_answers_at_any_size(demo):
    model, program = demo
    run = program.module()
    for size in SIZES:
        image = example_image(size, seed=2)
        with torch.no_grad():
            expected = DeployedSegmentor(model, image)(image)
            for actual, value in zip(run(image), expected):
                torch.testing.assert_close(actual, value, atol=1e-5, rtol=1e-5)


def test_the_file_agrees_at_any_size_and_holds_the_weights_once(demo,
                                                                tmp_path):
    import onnx
    model, program = demo
    path = tmp_path / 'demo.onnx'
    differences = save_onnx(program, model, path, dict(classes=['a', 'b']))
    assert max(differences.values()) < 1e-4
    assert_right(path, model)
    weights = 4 * sum(p.numel() for p in model.parameters())
    # The network is small, so its views' nodes are a part of the file.
    assert path.stat().st_size < 1.5 * weights
    graph = onnx.load(path)
    assert not any('Random' in node.op_type or node.op_type == 'Dropout'
                   for node in graph.graph.node)
    assert [d.dim_param or d.dim_value for d in
            graph.graph.input[0].type.tensor_type.shape.dim] == [
                1, 'height', 'width', 3]
    assert json.loads(graph.metadata_props[0].value) == ['a', 'b']


@pytest.mark.skipif(not os.environ.get('ABNN_SLOW_TESTS'),
                    reason='a minute; set ABNN_SLOW_TESTS=1 to run it')
def test_r50_d8_agrees(tmp_path):
    model = model_of(R50_D8, draws=8)
    program = export_program(model, (64, 96))
    save_onnx(program, model, tmp_path / 'r50.onnx')
    assert_right(tmp_path / 'r50.onnx', model)
    assert (tmp_path / 'r50.onnx').stat().st_size < 180e6
