"""A norm layer with Gaussian noise on gamma: what all families share.

A norm layer computes ``y = normalize(x) * gamma + beta``. Its Bayesian
version (Franchi et al., "Make Me a BNN", CVPR 2024) computes

    y = normalize(x) * gamma * (1 + alpha * eps) + beta,   eps ~ N(0, 1).

The families are in :mod:`abnn_mmseg.models.bnl`. While a posterior predicts,
a layer runs as that of one network, or of several (:class:`Network`).
"""
import math
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, Optional

import torch
from torch import Tensor, nn

from abnn_mmseg.models.passes import handler_of
from abnn_mmseg.utils.choices import one_of

STATISTICS = ('frozen', 'update')


class Network(NamedTuple):
    """The affine step of one layer in one network, or in several.

    Args:
        scale (Tensor): Shape of gamma. With one more dimension, image i of
            the batch goes through network i.
        shift (Tensor): As scale.
        vmapped (bool): Whether the layer runs inside ``torch.vmap``.
        alpha (float): Level of additional noise in every pixel.
        bias (Tensor, optional): Beta of the network, needed for that noise.
    """
    scale: Tensor
    shift: Tensor
    vmapped: bool = False
    alpha: float = 0.
    bias: Optional[Tensor] = None


class TrainingNoise(NamedTuple):
    """Fresh noise of a training pass.

    Args:
        kind (str): ``'channel'`` draws one eps per image and channel,
            ``'element'`` one per pixel.
        alpha (float): Level of the noise.
    """
    kind: str
    alpha: float


_generator: ContextVar[Optional[torch.Generator]] = ContextVar(
    'abnn_mmseg_generator', default=None)


@contextmanager
def drawing_from(generator: torch.Generator):
    """A context in which element noise comes from a CPU generator."""
    token = _generator.set(generator)
    try:
        yield
    finally:
        _generator.reset(token)


class _NetworkAffine(torch.autograd.Function):
    """The affine step of n networks at once: a rule for ``torch.vmap``."""

    @staticmethod
    def forward(x: Tensor, scale: Tensor, shift: Tensor,
                layer: 'BayesianNorm', options: dict) -> Tensor:
        """The affine step of one network."""
        return layer.apply_network(x, scale, shift, **options)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        """Nothing is kept: networks of a posterior have no gradients."""

    @staticmethod
    def vmap(info, in_dims, x, scale, shift, layer, options):
        """The affine steps of n networks in one call."""
        n = info.batch_size
        if in_dims[0] is None:
            # The first noisy layer: all n networks get the same input.
            x = x.expand(n, *x.shape)
        else:
            x = x.movedim(in_dims[0], 0)
        scale, shift = (
            t.movedim(dim, 0)
            for t, dim in ((scale, in_dims[1]), (shift, in_dims[2])))
        return layer.apply_networks(x, scale, shift, **options), 0


class BayesianNorm(nn.Module):
    """The noise of a BNL: a mixin for the norm class it replaces.

    Args:
        alpha (float): Standard deviation of the noise, relative to gamma.
            Defaults to 0.1.
        statistics (str): ``'frozen'`` normalizes with the checkpoint's
            running statistics while fine-tuning, since small batches would
            spoil them; ``'update'`` trains with batch statistics. It matters
            for batch norm only. Defaults to ``'frozen'``.

    Attributes:
        noise (TrainingNoise, optional): Noise of a training pass; None for
            the plain layer. It is independent of ``self.training``, which
            ``norm_eval`` and test loops change.
    """

    # Names of the tensors that scale and shift are computed from.
    FOLDED: tuple[str, ...] = ('weight', 'bias')
    noise: Optional[TrainingNoise] = None
    weight: nn.Parameter
    bias: nn.Parameter

    def __init__(self, *args, alpha=0.1, statistics='frozen', **kwargs):
        super().__init__(*args, **kwargs)
        self.make_bayesian(alpha, statistics)

    def make_bayesian(self, alpha: float, statistics: str) -> None:
        """Set the options of the noise, also of a converted plain norm."""
        check_alpha(alpha)
        self.alpha = float(alpha)
        self.statistics = one_of('statistics', statistics, STATISTICS)
        self.train(self.training)

    def train(self, mode: bool = True):
        """Keep the norm in eval mode if its statistics are frozen."""
        return super().train(mode and self.statistics == 'update')

    def forward(self, input: Tensor, **options) -> Tensor:
        """Run the layer; ``options`` go to the forward of a custom norm."""
        handler = handler_of(self)
        if handler is not None:
            return handler(super().forward, input, **options)
        if self.noise is None or self.noise.alpha == 0:
            return super().forward(input, **options)
        return self.noisy_forward(input, **options)

    def as_network(self, network: Network, forward, x: Tensor,
                   **options) -> Tensor:
        """Run the layer as that of a network; a handler of a pass."""
        scale, shift, vmapped, alpha, bias = network
        if vmapped:
            return _NetworkAffine.apply(x, scale, shift, self, options)
        if scale.dim() > self.weight.dim():
            return self.apply_per_image(x, scale, shift, **options)
        y = self.apply_network(x, scale, shift, **options)
        if not alpha:
            return y
        eps = torch.randn(y.shape, generator=_generator.get(),
                          dtype=torch.float32)
        return self.add_noise(y, bias, alpha * eps.to(y))

    def noisy_forward(self, x: Tensor) -> Tensor:
        """A training pass: fresh noise, gradients to gamma and beta."""
        assert self.noise is not None
        kind, alpha = self.noise
        y = super().forward(x)
        eps = (torch.randn_like(y) if kind == 'element' else
               self.expand(self.draw(y), y))
        return self.add_noise(y, self.bias, alpha * eps)

    def add_noise(self, y: Tensor, bias: Optional[Tensor],
                  noise: Tensor) -> Tensor:
        """``y + alpha * eps * (y - beta)``: the noise, added to the output."""
        centred = y if bias is None else y - self.expand(bias, y)
        return y + noise * centred

    def draw(self, x: Tensor) -> Tensor:
        """One eps per image and channel, on the device of ``x``."""
        return torch.randn((x.shape[0], ) + self.weight.shape,
                           device=x.device, dtype=self.weight.dtype)

    def expand(self, parameter: Tensor, x: Tensor) -> Tensor:
        """Reshape ``[C]`` or ``[N, C]`` to broadcast over ``[N, C, ...]``."""
        return parameter.reshape(parameter.shape + (1, ) * (x.dim() - 2))

    def apply_network(self, x: Tensor, scale: Tensor,
                      shift: Tensor) -> Tensor:
        """One network: the family's own kernel with its scale and shift."""
        raise NotImplementedError

    def apply_networks(self, x: Tensor, scale: Tensor,
                       shift: Tensor) -> Tensor:
        """n networks, each on its own batch: ``x`` is ``[n, N, ...]``."""
        rows = (t.repeat_interleave(x.shape[1], 0) for t in (scale, shift))
        return self.apply_per_image(x.flatten(0, 1), *rows).unflatten(
            0, x.shape[:2])

    def apply_per_image(self, x: Tensor, scale: Tensor,
                        shift: Tensor) -> Tensor:
        """Run image i of the batch through network i."""
        y = self.apply_network(x, torch.ones_like(scale[0]),
                               torch.zeros_like(shift[0]))
        return y * self.expand(scale, y) + self.expand(shift, y)

    def fold(self, tensors: dict, factor: Tensor,
             eps: Tensor) -> tuple[Tensor, Tensor]:
        """Compute scale and shift of networks, for one or several layers.

        Args:
            tensors (dict): The tensors named in ``FOLDED``, ``[..., C]``.
            factor (Tensor): ``1 + alpha * eps``, one row per network.
            eps (Tensor): The constant added to the variance, ``[C]``.
        """
        scale = tensors['weight'] * factor
        bias = tensors.get('bias')
        if bias is None:
            return scale, torch.zeros_like(scale)
        return scale, bias.expand_as(scale).clone()

    @property
    def fold_eps(self) -> float:
        """The ``eps`` of :meth:`fold`."""
        return 0.

    def extra_repr(self) -> str:
        """Text of the layer in a printed model."""
        return (f'{super().extra_repr()}, alpha={self.alpha}, '
                f'statistics={self.statistics!r}')


def check_alpha(alpha: float) -> None:
    """Raise ValueError unless alpha is a finite number from 0 on."""
    if (isinstance(alpha, bool) or not isinstance(alpha, (int, float))
            or not math.isfinite(alpha) or alpha < 0):
        raise ValueError(
            f'alpha={alpha!r} is not a noise level; write a number >= 0 such '
            'as alpha=0.1 (0 is the original network).')


def bayesian_layers(model: nn.Module) -> dict[str, BayesianNorm]:
    """The BNL layers of a model by name."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, BayesianNorm)
    }
