r"""The likelihood of norm parameters, given labelled images.

Pixels of an image are not independent: neighbours show the same object, and
a difficult image is difficult in many of its pixels. A product over all pixels
would be far too certain. So an image counts as E pixels, the effective number:

    log p(D | theta) = sum_images E / n_i * sum_pixels log p(y | x, theta)

with n_i labelled pixels. By default E is estimated like the design effect of
cluster samples (Kish, 1965): with rho the share of the variance of the pixels'
loss that lies between images, n pixels of one image say as much about the
mean as

    E = n / (1 + (n - 1) * rho)

pixels of different images.
"""
from collections.abc import Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from mmseg.models.utils import resize
from torch import Tensor

from abnn_mmseg.evaluation.fields import IGNORE, class_labels
from abnn_mmseg.fitting.hmc import Potential
from abnn_mmseg.members.images import Batch, Images
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.uncertainty.statistics import as_classes


def norm_parameters(model: BayesianSegmentor,
                    layers: Sequence[str]) -> dict[str, Tensor]:
    """Gamma and beta of these layers by state-dict name."""
    return {
        f'{layer}.{key}': parameter
        for layer in layers
        for key, parameter in model.get_submodule(layer).named_parameters(
            recurse=False)
    }


def pixel_logits(model: BayesianSegmentor, batch: Batch
                 ) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits ``[N, C]`` and classes of the labelled pixels, by image."""
    if any(any(meta.get('img_padding_size', ())) for meta in batch.metas):
        raise ValueError(
            'the data_preprocessor pads images (its test_cfg, or size_'
            'divisor), and padding has no labels to fit to; remove it.')
    outputs = as_classes(model.encode_decode(batch.inputs, batch.metas))
    for sample, logits in zip(batch.samples, model.to_logits(outputs)):
        shape = sample.gt_sem_seg.data.shape[-2:]
        if logits.shape[1:] != shape:
            logits = resize(logits[None], shape, mode='bilinear',
                            align_corners=model.align_corners)[0]
        labels = class_labels(
            dict(sample.to_dict(), seg_logits=dict(data=logits)))
        known = labels != IGNORE
        yield logits.flatten(1)[:, known].t(), labels[known]


@torch.no_grad()
def effective_pixels(model: BayesianSegmentor,
                     batches: Iterable[Batch]) -> float:
    """Estimate E on these images; see the top of this file."""
    sizes, means, squares = [], [], []
    for batch in batches:
        for logits, labels in pixel_logits(model, batch):
            if len(labels):
                loss = F.cross_entropy(logits, labels,
                                       reduction='none').double()
                sizes.append(len(loss))
                means.append(float(loss.mean()))
                squares.append(float(loss.var(unbiased=False)) * len(loss))
    if len(sizes) < 2:
        raise ValueError(
            f'{len(sizes)} images with labels are too few to estimate how '
            'many pixels of an image are independent; fit to more images, '
            'or give --effective-pixels a number such as 100.')
    return design_effect(torch.tensor(sizes).double(),
                         torch.tensor(means).double(),
                         torch.tensor(squares).double())


def design_effect(sizes: Tensor, means: Tensor, squares: Tensor) -> float:
    """Pixels of an image, divided by the effect of their correlation.

    Args:
        sizes (Tensor): n_i.
        means (Tensor): Mean loss of each image.
        squares (Tensor): Sum of squared deviations from it, in the image.
    """
    total, images = sizes.sum(), len(sizes)
    mean = (sizes * means).sum() / total
    between = (sizes * (means - mean).square()).sum() / (images - 1)
    within = squares.sum() / (total - images).clamp_min(1)
    # The size of equal clusters that would give the same expectation.
    size = (total - sizes.square().sum() / total) / (images - 1)
    rho = (between - within) / (between + (size - 1) * within)
    rho = rho.nan_to_num(1.).clamp(0, 1)
    mean_size = total / images
    return float(mean_size / (1 + (mean_size - 1) * rho))


class NormLikelihood:
    """log p(D | theta) of the norm parameters of a model, and its gradient.

    The parameters are a vector in double precision, whatever precision the
    network has.

    Args:
        model (BayesianSegmentor): In eval mode.
        layers (Sequence[str]): Names of the layers whose norms vary.
        images (Images): D.
        pixels (float): E, the effective number of pixels in an image.
    """

    def __init__(self, model: BayesianSegmentor, layers: Sequence[str],
                 images: Images, pixels: float) -> None:
        if not 0 < pixels < float('inf'):
            raise ValueError(f'effective_pixels={pixels} of an image must be '
                             'a positive number; leave it out to estimate '
                             'it.')
        self.model = model
        self.images = images
        self.pixels = pixels
        self.parameters = norm_parameters(model, layers)
        model.requires_grad_(False)
        for parameter in self.parameters.values():
            parameter.requires_grad_(True)

    @property
    def theta(self) -> Tensor:
        """The current parameters."""
        return torch.cat([
            p.detach().double().cpu().flatten()
            for p in self.parameters.values()])

    def write(self, theta: Tensor) -> None:
        """Set the norm parameters of the model."""
        sizes = [p.numel() for p in self.parameters.values()]
        with torch.no_grad():
            for parameter, part in zip(self.parameters.values(),
                                       theta.split(sizes)):
                parameter.copy_(part.reshape(parameter.shape))

    def __call__(self, theta: Tensor) -> tuple[float, Tensor]:
        """The logarithm of the likelihood, and its gradient."""
        self.write(theta)
        total = torch.zeros((), dtype=torch.float64)
        gradient = torch.zeros_like(theta)
        for batch in self.images:
            value = self.of_batch(batch)
            gradient += self.gradient(value)
            total += value.detach().double().cpu()
        return float(total), gradient

    def of_batch(self, batch: Batch) -> Tensor:
        """The logarithm of the likelihood of some images."""
        total = batch.inputs.new_zeros(())
        for logits, labels in pixel_logits(self.model, batch):
            if len(labels):
                total = total - self.pixels * F.cross_entropy(logits, labels)
        return total

    def gradient(self, value: Tensor, keep: bool = False) -> Tensor:
        """The gradient of an output of the network by the parameters.

        Args:
            value (Tensor): The output, a number.
            keep (bool): Whether more gradients of the same pass follow.
        """
        if not value.requires_grad:
            # No image of the batch has labels.
            return torch.zeros_like(self.theta)
        # The logits may not depend on every norm.
        parts = torch.autograd.grad(
            value, list(self.parameters.values()), retain_graph=keep,
            allow_unused=True, materialize_grads=True)
        return torch.cat([p.double().cpu().flatten() for p in parts])


def posterior_energy(likelihood: NormLikelihood, centre: Tensor,
                     prior_std: float, temperature: float) -> Potential:
    r"""The energy of theta's posterior under a Gaussian prior.

        U = (|theta - centre|^2 / (2 s^2) - log p(D | theta)) / T

    T = 1 is Bayes' posterior; a lower one, the cold posterior, is sharper.
    """

    def potential(theta: Tensor) -> tuple[float, Tensor]:
        """Negative log posterior over temperature, and its gradient."""
        value, gradient = likelihood(theta)
        away = (theta - centre) / prior_std
        energy = (float(away.square().sum()) / 2 - value) / temperature
        return energy, (away / prior_std - gradient) / temperature

    return potential
