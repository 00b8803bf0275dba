"""A linear model with one norm: its posterior has a closed form."""
import torch
from mmengine.structures import PixelData
from mmseg.structures import SegDataSample

from abnn_mmseg.fitting.likelihood import NormLikelihood
from abnn_mmseg.members.images import Batch
from abnn_mmseg.models.bnl import BNL

CHANNELS, CLASSES = 3, 4


class Linear(torch.nn.Module):
    """``W (gamma * x + beta)`` in every pixel, W not to be learned."""

    align_corners = False

    def __init__(self):
        super().__init__()
        self.norm = BNL(CHANNELS)
        self.head = torch.nn.Conv2d(CHANNELS, CLASSES, 1, bias=False)
        self.eval()

    def encode_decode(self, inputs, metas):
        return self.head(self.norm(inputs))

    forward = encode_decode

    def to_logits(self, outputs):
        return outputs


def make(images=5, height=4, width=3, pixels=6.):
    """A likelihood of the linear model on random images, some unlabelled."""
    torch.manual_seed(0)
    model = Linear()
    torch.nn.init.normal_(model.head.weight)
    batches = []
    for i in range(images):
        labels = torch.randint(CLASSES, (1, height, width))
        if height * width > 1:
            labels[0, 0, :i % 3] = 255
        sample = SegDataSample(metainfo=dict(img_shape=(height, width)))
        sample.gt_sem_seg = PixelData(data=labels)
        batches.append(Batch(
            torch.randn(1, CHANNELS, height, width), [sample]))
    return NormLikelihood(model, ['norm'], batches, pixels)


def exact_gauss_newton(likelihood):
    """J^T (diag(p) - p p^T) J, summed over the labelled pixels."""
    model = likelihood.model
    weight = model.head.weight.detach()[..., 0, 0].double()
    scale = 1 / (model.norm.running_var + model.norm.eps).sqrt().double()
    total = torch.zeros(2 * CHANNELS, 2 * CHANNELS, dtype=torch.float64)
    for inputs, [sample] in likelihood.images:
        known = sample.gt_sem_seg.data[0] != 255
        pixels = inputs[0][:, known].t().double() * scale
        p = model(inputs, None)[0][:, known].t().softmax(1).double().detach()
        factor = likelihood.pixels / len(pixels)
        for x, q in zip(pixels, p):
            jacobian = torch.cat([weight * x, weight], 1)
            total += factor * jacobian.t() @ (
                q.diag() - q[:, None] * q) @ jacobian
    return total
