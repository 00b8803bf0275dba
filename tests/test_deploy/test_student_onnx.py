"""A student's ONNX file is an ordinary network with more outputs."""
import pytest
import torch
from mmengine.registry import init_default_scope
from toys import build, toy_config

from abnn_mmseg.deploy.onnx import (
    example_image,
    export_program,
    output_differences,
    save_onnx,
)
from abnn_mmseg.models.students import DESIGNS, new_student

SCORES = ('entropy', 'mutual_information', 'energy')


@pytest.fixture(scope='module', params=DESIGNS)
def model(request):
    """A toy with a student that says something."""
    init_default_scope('mmseg')
    model = build(toy_config(
        type='BayesianEncoderDecoder', scores=SCORES, prediction='base',
        auxiliary=False, posterior=dict(type='DistilledPosterior'),
        data_preprocessor=dict(type='SegDataPreProcessor')))
    head = new_student(model, torch.randn(1, 3, 64, 96), request.param,
                       width=8)
    for output in head.outputs.values():
        torch.nn.init.normal_(output.weight)
    if head.network is not None:
        for parameter in head.network.parameters():
            parameter.data.mul_(1.1)
    model.posterior.student = head.eval()
    return model


@pytest.mark.parametrize('prediction', ['base', 'posterior_mean'])
def test_a_student_is_one_onnx_file(model, tmp_path, prediction):
    pytest.importorskip('onnxruntime')
    pytest.importorskip('onnxscript')
    model.prediction = prediction
    path = tmp_path / 'student.onnx'
    save_onnx(export_program(model, (64, 96)), model, path)
    for size in ((64, 96), (97, 131)):
        differences = output_differences(
            model, path, example_image(size, seed=2))
        assert list(differences) == ['probability', *SCORES]
        assert max(differences.values()) < 1e-4


def test_the_graph_says_what_the_segmentor_says(model):
    from abnn_mmseg.deploy.segmentor import DeployedSegmentor
    model.prediction = 'base'
    image = example_image((64, 96))
    with torch.no_grad():
        probability, *maps = DeployedSegmentor(model, image)(image)
        [sample] = model.predict(image.permute(0, 3, 1, 2).float())
    assert torch.equal(probability.argmax(1), sample.pred_sem_seg.data)
    for score, map_ in zip(SCORES, maps):
        assert torch.allclose(map_, sample.uncertainty.get(score), atol=1e-5)
