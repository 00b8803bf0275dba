"""ABNN's posterior: M members x L draws as one bank of affine steps."""
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Optional

import torch
from mmseg.registry import MODELS
from torch import Tensor, nn

from abnn_mmseg.models.bnl import (
    BayesianNorm,
    Network,
    bayesian_layers,
    check_alpha,
)
from abnn_mmseg.models.posteriors.base import Forward, Networks
from abnn_mmseg.models.posteriors.draws import check_draws, draw_eps
from abnn_mmseg.models.posteriors.forking import ForkingPosterior, run_one
from abnn_mmseg.models.scopes import Scope, resolve
from abnn_mmseg.utils.choices import one_of

if TYPE_CHECKING:
    from abnn_mmseg.models.segmentor import BayesianSegmentor

NOISES = ('channel', 'element')
Bank = dict[str, Network]


@MODELS.register_module()
class BNLPosterior(ForkingPosterior):
    """K = M x L networks that differ only in their norms' affine step.

    In eval, layer c of network k = (m, l) is ``x * scale[k] + shift[k]`` with

        scale = gamma_m * (1 + alpha * eps_ml) / sigma_m
        shift = beta_m - mu_m * scale

    on the raw input of a batch norm (other families keep their statistics,
    so sigma = 1 and mu = 0 there, on the normalized input). So a network is
    two vectors per layer, drawn once from ``seed`` on the CPU and used for
    every image, window and frame.

    Args:
        alpha (float, optional): Noise level of all layers in scope. None
            keeps the alpha of each layer's ``norm_cfg``.
        samples (int): Draws L per member. Defaults to 8.
        scope (str | Sequence[str]): Where noise lives, see
            :func:`abnn_mmseg.models.scopes.resolve`. What trains is in the
            scope too, unless the segmentor says ``finetune='all'``.
            Defaults to 'all'.
        noise (str): ``'channel'``, one eps per channel, or ``'element'``,
            one per pixel as in the authors' code, for comparison.
        antithetic (bool): Draw pairs (eps, -eps). Defaults to True.
        seed (int): Seed of the draws.
        members (str | Sequence[str], optional): Member files to load.
        **kwargs: How to run them, see :class:`ForkingPosterior`.
    """

    def __init__(self,
                 alpha: Optional[float] = None,
                 samples: int = 8,
                 scope: Scope = 'all',
                 noise: str = 'channel',
                 antithetic: bool = True,
                 seed: int = 0,
                 members=None,
                 **kwargs) -> None:
        super().__init__(**kwargs)
        if alpha is not None:
            check_alpha(alpha)
        check_draws(samples, antithetic and noise == 'channel')
        self.alpha = alpha
        self.samples = samples
        self.scope = scope
        self.noise = one_of('noise', noise, NOISES)
        self.antithetic = antithetic
        self.seed = seed
        self.member_files = [members] if isinstance(members, str) else members
        self.members: list[dict[str, Tensor]] = []
        # Fitted for these members, by the segmentor's ``prediction``.
        self.temperatures: dict[str, float] = {}
        # Chosen for these members, by score.
        self.thresholds: dict[str, float] = {}
        self._built: Optional[tuple[tuple, Bank]] = None

    def attach(self, model: 'BayesianSegmentor') -> None:
        super().attach(model)
        layers = bayesian_layers(model)
        if not layers:
            raise ValueError(
                'the model has no normalization layer that could become '
                f'Bayesian ({model.conversion.summary()}); ABNN needs affine '
                'norms, so set norm_cfg in its backbone or heads.')
        if self.alpha is not None:
            for layer in layers.values():
                layer.alpha = float(self.alpha)
        self.in_scope = resolve(layers, self.scope)
        # Auxiliary heads are Bayesian while training and unused afterwards.
        self.layers = {
            name: layer
            for name, layer in layers.items()
            if not name.startswith('auxiliary_head')
        }

    def set_members(self, members: list[dict[str, Tensor]]) -> None:
        """Replace the members; each maps state-dict names to tensors.

        No members means one: the norms the model has right now.
        """
        self.members = members
        self._built = None

    def __len__(self) -> int:
        return max(1, len(self.members)) * self.draws_per_member

    @property
    def draws_per_member(self) -> int:
        """Without noise all draws are one network."""
        return self.samples if self.is_noisy else 1

    @property
    def is_noisy(self) -> bool:
        """Whether any layer in scope has noise."""
        return any(self.layers[n].alpha for n in self.in_scope
                   if n in self.layers)

    @property
    def noise_settings(self) -> str:
        """What numbers fitted to these networks depend on, for people."""
        alpha = "the layers' alpha" if self.alpha is None else (
            f'alpha {self.alpha:g}')
        parts = [alpha, f'scope {self.scope!r}', f'{self.noise} noise']
        if len(self.views) > 1:
            parts.append('views ' + ' '.join(map(str, self.views)))
        return ', '.join(parts)

    @property
    def is_network(self) -> bool:
        return not self.members and self.draws_per_member == 1

    def networks(self, forward: Forward, inputs: Tensor) -> Iterator[Networks]:
        if self.is_network:
            return super().centre(forward, inputs)
        if self.noise == 'element':
            return self._element_networks(forward)
        return self._bank_networks(self.bank(), forward, inputs)

    def centre(self, forward: Forward, inputs: Tensor) -> Iterator[Networks]:
        if not self.members:
            return super().centre(forward, inputs)
        return self._bank_networks(self.build(None), forward, inputs)

    def bank(self) -> Bank:
        """The bank on the model's device, rebuilt when a norm has changed."""
        key = self._fingerprint()
        if self._built is None or self._built[0] != key:
            self._built = key, self.build(self.draw())
        return self._built[1]

    def build(self, eps: Optional[dict[str, Tensor]]) -> Bank:
        """Fold members and draws into scale and shift, ``[K, C]`` a layer.

        Args:
            eps (dict, optional): ``[M, L, C]`` a layer; None for the
                noise-free networks, one a member.
        """
        members = self.members or [{}]
        bank = {}
        for name in self._forking():
            layer = self.layers[name]
            scales, shifts = [], []
            for m, member in enumerate(members):
                factor = torch.ones((1, ) + layer.weight.shape)
                if eps is not None:
                    alpha = layer.alpha if name in self.in_scope else 0.
                    factor = 1 + alpha * eps[name][m]
                tensors = _tensors_of(layer, name, member)
                scale, shift = layer.fold(tensors,
                                          factor.to(layer.weight.device))
                scales.append(scale.detach())
                shifts.append(shift.detach())
            bank[name] = Network(torch.cat(scales), torch.cat(shifts))
        return bank

    def _forking(self) -> list[str]:
        """Layers in scope, and those in which the members differ."""
        return [
            name for name, layer in self.layers.items()
            if name in self.in_scope or any(
                _differs(layer, name, member) for member in self.members)
        ]

    def draw(self) -> dict[str, Tensor]:
        """eps of all layers, in scope or not, so scopes share their draws."""
        shapes = {n: layer.weight.shape for n, layer in self.layers.items()}
        return draw_eps(shapes, max(1, len(self.members)),
                        self.draws_per_member, self.antithetic, self.seed)

    def _fingerprint(self) -> tuple:
        """Changes whenever an optimizer, a load or a move touches a norm."""
        tensors = [
            t for layer in self.layers.values()
            for t in (layer.weight, layer.bias,
                      getattr(layer, 'running_mean', None),
                      getattr(layer, 'running_var', None)) if t is not None
        ]
        alphas = tuple(layer.alpha for layer in self.layers.values())
        return (tuple((id(t), t._version, t.device) for t in tensors), alphas,
                tuple(map(id, self.members)), self.samples, self.seed,
                self.antithetic, tuple(self.in_scope))

    def _bank_networks(self, bank: Bank, forward: Forward,
                       inputs: Tensor) -> Iterator[Networks]:
        return self.forked(
            partial(self.run, forward), slice_bank(bank, slice(None)),
            [self.layers[name] for name in bank], inputs)

    def _element_networks(self, forward: Forward) -> Iterator[Networks]:
        """Fresh noise in every pixel of every layer, one pass a draw."""
        bank = self.build(None)
        run = partial(self.run, forward, noise='element')
        for k in range(len(self)):
            m = k // self.draws_per_member
            member = self.members[m] if self.members else {}
            chunk = {
                name: (*affine, _tensors_of(self.layers[name], name,
                                            member).get('bias'))
                for name, affine in slice_bank(bank, m).items()
            }
            with _seeded(self.seed + k, self.model):
                yield partial(run_one, run, chunk)

    def run(self, forward: Forward, chunk: dict[str, tuple], images: Tensor,
            **state) -> Tensor:
        """The logits of the chunk's network."""
        with self._installed(chunk, **state):
            return forward(images)

    @contextmanager
    def _installed(self, chunk: dict[str, tuple],
                   noise: Optional[str] = None, vmapped: bool = False):
        """For the time of a pass, the model is the chunk's network."""
        before = {name: self.layers[name].noise for name in chunk}
        for name, values in chunk.items():
            self.layers[name].network = Network(*values)._replace(
                vmapped=vmapped)
            self.layers[name].noise = noise if name in self.in_scope else None
        try:
            yield
        finally:
            for name in chunk:
                self.layers[name].network = None
                self.layers[name].noise = before[name]


def _tensors_of(layer: BayesianNorm, name: str,
                member: dict[str, Tensor]) -> dict[str, Tensor]:
    """The layer's tensors, the member's where it has its own."""
    tensors = {**layer._parameters, **layer._buffers}
    return {
        key: member.get(f'{name}.{key}', value).to(value.device)
        for key, value in tensors.items() if value is not None
    }


def _differs(layer: BayesianNorm, name: str,
             member: dict[str, Tensor]) -> bool:
    """Whether a member's layer is another one than the model's."""
    own = _tensors_of(layer, name, {})
    return any(
        not torch.equal(value, own[key])
        for key, value in _tensors_of(layer, name, member).items()
        if value.is_floating_point())


def slice_bank(bank: Bank, which) -> dict[str, tuple]:
    """Scale and shift of one network, or of several, by layer."""
    return {
        name: (network.scale[which], network.shift[which])
        for name, network in bank.items()
    }


@contextmanager
def _seeded(seed: int, model: nn.Module):
    device = next(model.parameters()).device
    devices = [] if device.type == 'cpu' else [device]
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield
