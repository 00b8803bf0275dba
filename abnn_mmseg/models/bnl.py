"""Bayesian Normalization Layers: batch, layer, group, instance, and custom.

Each class subclasses the layer it replaces, so state-dict keys,
``isinstance`` checks and initialization stay what they were.
"""
from typing import Optional

import torch
import torch.nn.functional as F
from mmseg.registry import MODELS
from torch import Tensor, nn

from abnn_mmseg.compat import with_parameters
from abnn_mmseg.models.bayesian_norm import BayesianNorm


class BatchBNL(BayesianNorm):
    """Batch norm: in eval mode, statistics and gamma are one affine step."""

    FOLDED = ('weight', 'bias', 'running_mean', 'running_var')
    eps: float

    @property
    def fold_eps(self) -> float:
        """The layer's ``eps``."""
        return self.eps

    def noisy_forward(self, x):
        """A training pass; in eval it is one affine step per image."""
        assert self.noise is not None
        kind, alpha = self.noise
        if self.training or kind == 'element':
            return super().noisy_forward(x)
        tensors = {name: getattr(self, name) for name in self.FOLDED}
        eps = torch.full_like(self.weight, self.eps, requires_grad=False)
        return self.apply_per_image(
            x, *self.fold(tensors, 1 + alpha * self.draw(x), eps))

    def apply_network(self, x, scale, shift):
        """One network: a single affine step."""
        return F.batch_norm(
            x, torch.zeros_like(shift), torch.ones_like(scale), scale, shift,
            eps=0.)

    def apply_per_image(self, x, scale, shift):
        """Run image i of the batch through network i."""
        if torch.compiler.is_compiling():
            # Tracing a reshape of free sizes takes four times as long.
            ones = (1, ) * (x.dim() - 2)
            return (x * scale.reshape(*scale.shape, *ones)
                    + shift.reshape(*shift.shape, *ones))
        # As one image of N * C channels, the fused kernel runs once.
        y = self.apply_network(
            x.reshape(1, scale.numel(), *x.shape[2:]), scale.flatten(),
            shift.flatten())
        return y.reshape(x.shape)

    def fold(self, tensors, factor, eps):
        """Scale and shift with the running statistics folded in."""
        inverse = 1 / torch.sqrt(tensors['running_var'] + eps)
        scale = inverse * (tensors['weight'] * factor)
        return scale, tensors['bias'] - tensors['running_mean'] * scale


class LayerBNL(BayesianNorm):
    """Layer norm: channels come last, gamma may have several dimensions."""

    normalized_shape: tuple[int, ...]
    eps: float

    def expand(self, parameter, x):
        """Reshape gamma, or one gamma per image, to broadcast over ``x``."""
        if parameter.dim() == self.weight.dim():
            return parameter
        ones = (1, ) * (x.dim() - parameter.dim())
        return parameter.reshape(parameter.shape[:1] + ones +
                                 parameter.shape[1:])

    def apply_network(self, x, scale, shift):
        """One network: layer norm with its scale and shift."""
        return F.layer_norm(x, self.normalized_shape, scale, shift, self.eps)


class GroupBNL(BayesianNorm):
    """Group norm."""

    num_groups: int
    eps: float

    def apply_network(self, x, scale, shift):
        """One network: group norm with its scale and shift."""
        return F.group_norm(x, self.num_groups, scale, shift, self.eps)


class InstanceBNL(BayesianNorm):
    """Instance norm, with its own or with running statistics."""

    running_mean: Optional[Tensor]
    running_var: Optional[Tensor]
    track_running_stats: bool
    eps: float

    def apply_network(self, x, scale, shift):
        """One network: instance norm with its scale and shift."""
        return F.instance_norm(
            x, self.running_mean, self.running_var, scale, shift,
            use_input_stats=self.training or not self.track_running_stats,
            eps=self.eps)


class CustomBNL(BayesianNorm):
    """A norm of any family with a forward of its own.

    Examples are ``LayerNorm2d`` of mmseg, mmpretrain and timm (channels
    first) and norms with an activation inside. Their own code runs once for
    each network, with the gamma of that network. A training pass has one eps
    for the whole batch.
    """

    def noisy_forward(self, x, **options):
        """A training pass with one eps for the whole batch."""
        assert self.noise is not None
        kind, alpha = self.noise
        if kind == 'element':
            return super().noisy_forward(x)
        eps = torch.randn_like(self.weight)
        return self.apply_network(x, self.weight * (1 + alpha * eps),
                                  self.bias, **options)

    def add_noise(self, y, bias, noise):
        """Raises ValueError: pixels of an unknown layout get no noise."""
        raise ValueError(
            f"noise='element' is not defined for {type(self).__name__}, whose "
            "layout is unknown; write noise='channel' in the posterior.")

    def apply_network(self, x, scale, shift, **options):
        """One network: the norm's own code with another gamma."""
        bias = {} if self.bias is None else dict(bias=shift)
        layer = with_parameters(self, weight=scale, **bias)
        return super(BayesianNorm, layer).forward(x, **options)

    def apply_networks(self, x, scale, shift, **options):
        """n networks, one after the other."""
        return torch.stack([
            self.apply_network(*network, **options)
            for network in zip(x, scale, shift)
        ])

    def apply_per_image(self, x, scale, shift, **options):
        """Run image i of the batch through network i."""
        return self.apply_networks(
            x[:, None], scale, shift, **options).flatten(0, 1)


@MODELS.register_module()
class BNL(BatchBNL, nn.BatchNorm2d):
    """Bayesian ``nn.BatchNorm2d``: ``norm_cfg=dict(type='BNL', alpha=.1)``."""


@MODELS.register_module()
class BNLLN(LayerBNL, nn.LayerNorm):
    """Bayesian ``nn.LayerNorm``."""


@MODELS.register_module()
class BNLGN(GroupBNL, nn.GroupNorm):
    """Bayesian ``nn.GroupNorm``."""

    def __init__(self, num_channels, num_groups=32, **kwargs):
        # mmcv passes the channels first to every norm but nn.GroupNorm.
        super().__init__(num_groups, num_channels, **kwargs)


@MODELS.register_module()
class BNLIN(InstanceBNL, nn.InstanceNorm2d):
    """Bayesian ``nn.InstanceNorm2d``; only an affine one can be noisy."""

    def __init__(self, num_features, affine=True, **kwargs):
        super().__init__(num_features, affine=affine, **kwargs)
