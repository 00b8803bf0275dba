"""Adaptive average pooling in graphs for all image sizes."""
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim, export

from abnn_mmseg.deploy.pooling import (
    adaptive_mean,
    with_pooling_for_all_sizes,
)

BINS = (1, 2, 3, 6)


@pytest.mark.parametrize('size', [(4, 8), (5, 7), (1, 1), (2, 3), (64, 33)])
@pytest.mark.parametrize('bins', [(n, n) for n in BINS] + [(2, 5)])
def test_the_formula_is_pytorch_s(size, bins):
    values = torch.randn(2, 3, *size)
    torch.testing.assert_close(
        adaptive_mean(values, bins), F.adaptive_avg_pool2d(values, bins),
        atol=1e-6, rtol=1e-5)


class Pyramid(nn.Module):
    """The pooling of PSPNet and UPerNet."""

    def forward(self, images):
        return tuple(F.adaptive_avg_pool2d(images, n) for n in BINS)


def test_an_onnx_file_pools_images_of_all_sizes(tmp_path):
    """PyTorch's translation is wrong for 5x7 after a trace with 4x8: of 4
    rows in 3 bins each has two, of 5 rows one has three."""
    onnxruntime = pytest.importorskip('onnxruntime')
    pytest.importorskip('onnxscript')
    program = export(
        Pyramid(), (torch.randn(1, 3, 4, 8), ),
        dynamic_shapes=({2: Dim.DYNAMIC, 3: Dim.DYNAMIC}, ))
    path = str(tmp_path / 'pyramid.onnx')
    torch.onnx.export(with_pooling_for_all_sizes(program), dynamo=True,
                      verbose=False, input_names=['images']).save(path)
    session = onnxruntime.InferenceSession(path)
    for size in ((4, 8), (5, 7), (16, 9), (2, 3)):
        images = torch.randn(1, 3, *size)
        for actual, expected in zip(session.run(
                None, {'images': images.numpy()}), Pyramid()(images)):
            assert abs(actual - expected.numpy()).max() < 1e-5
