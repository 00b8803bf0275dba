"""ABNN's posterior: M members x L draws as one bank of affine steps."""
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Optional, Union, cast

import torch
from mmseg.registry import MODELS
from torch import Tensor

from abnn_mmseg.compat import version_of
from abnn_mmseg.models.architectures import AUXILIARY_HEAD
from abnn_mmseg.models.bnl import (
    BayesianNorm,
    Network,
    bayesian_layers,
    check_alpha,
)
from abnn_mmseg.models.posteriors.base import (
    Forward,
    Networks,
    Posterior,
    exact,
)
from abnn_mmseg.models.posteriors.draws import (
    check_count,
    check_draws,
    check_seed,
    draw_eps,
)
from abnn_mmseg.models.posteriors.element import ElementNetworks
from abnn_mmseg.models.posteriors.forking import (
    ForkedNetworks,
    ForkingPosterior,
    slice_values,
)
from abnn_mmseg.models.scopes import Scope, resolve
from abnn_mmseg.utils.choices import one_of

if TYPE_CHECKING:
    from abnn_mmseg.models.segmentor import BayesianSegmentor

NOISES = ('channel', 'element')
# Scale and shift, [K, C] each, by layer.
Bank = dict[str, tuple[Tensor, Tensor]]


@MODELS.register_module()
class BNLPosterior(ForkingPosterior):
    """K = M x L networks that differ only in their norms' affine step.

    In eval, layer c of network k is ``x * scale[k] + shift[k]`` with

        scale = gamma_m * (1 + alpha * eps_ml) / sigma_m
        shift = beta_m - mu_m * scale

    on the raw input of a batch norm (other families keep their statistics,
    so sigma = 1 and mu = 0 there, on the normalized input). So a network is
    two vectors per layer, drawn once from ``seed`` on the CPU and used for
    every image, window and frame. Network k is draw ``k // M`` of member
    ``k % M``: the first M networks hold all members.

    All settings may be changed after construction; they hold from the next
    prediction on.

    Args:
        alpha (float, optional): Noise level of all layers in scope. None
            keeps the alpha of each layer's ``norm_cfg``.
        samples (int): Draws L per member. Defaults to 8.
        networks (int, optional): Use only the first so many of the M x L
            networks. Defaults to None, all.
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

    scope: Scope
    takes_members = True
    trains = True

    def __init__(self,
                 alpha: Optional[float] = None,
                 samples: int = 8,
                 scope: Scope = 'all',
                 noise: str = 'channel',
                 antithetic: bool = True,
                 seed: int = 0,
                 members: Union[None, str, Sequence[str]] = None,
                 networks: Optional[int] = None,
                 **kwargs) -> None:
        super().__init__(**kwargs)
        self.alpha = alpha
        self.samples = samples
        self.networks = networks
        self.scope = scope
        self.noise = noise
        self.antithetic = antithetic
        self.seed = seed
        self.member_files = [members] if isinstance(members, str) else members
        self._eps: tuple[tuple, dict[str, Tensor]] = ((), {})
        self._compared: tuple[tuple, set[str]] = ((), set())
        self.check()

    def check(self) -> None:
        """Raise ValueError for a setting that cannot be used."""
        super().check()
        check_seed(self.seed)
        one_of('noise', self.noise, NOISES)
        if self.alpha is not None:
            check_alpha(self.alpha)
        check_draws(self.samples, self.antithetic
                    and self.noise == 'channel')
        if self.networks is not None:
            check_count('networks', self.networks, 'None for all')

    def attach(self, model: 'BayesianSegmentor') -> None:
        """Find the layers that can have noise, and check the scope."""
        super().attach(model)
        self.every_layer = bayesian_layers(model)
        if not self.every_layer:
            raise ValueError(
                'the model has no normalization layer that could become '
                f'Bayesian ({model.conversion.summary()}); ABNN needs affine '
                'norms, so set norm_cfg in its backbone or heads.')
        # Auxiliary heads are Bayesian while training and unused afterwards.
        self.layers = {
            name: layer
            for name, layer in self.every_layer.items()
            if not name.startswith(AUXILIARY_HEAD)
        }
        if not set(self.in_scope) & set(self.layers):
            raise ValueError(
                f'scope={self.scope!r} matches layers of the auxiliary head '
                'only, which does not predict; name layers of the backbone '
                "or the decode head, or write 'all'.")

    @property
    def in_scope(self) -> list[str]:
        """Names of the layers that have noise."""
        return resolve(self.every_layer, self.scope)

    def alphas(self) -> dict[str, float]:
        """Noise level of the layers that have noise, by name."""
        return {
            name: self.every_layer[name].alpha if self.alpha is None else
            float(self.alpha) for name in self.in_scope
        }

    def set_members(self, members: list[dict[str, Tensor]]) -> None:
        """Replace the members; none means the norms of the model."""
        self.members = members

    def __len__(self) -> int:
        every = max(1, len(self.members)) * self.draws_per_member
        return min(every, self.networks or every)

    @property
    def draws_per_member(self) -> int:
        """Draws of one member; without noise all draws are one network."""
        return self.samples if self.is_noisy else 1

    @property
    def is_noisy(self) -> bool:
        """Whether any layer that predicts has noise."""
        if self.alpha is not None:
            return self.alpha > 0
        return any(self.layers[n].alpha for n in self.in_scope
                   if n in self.layers)

    @property
    def noise_settings(self) -> str:
        """The noise and the views, as text."""
        alpha = "the layers' alpha" if self.alpha is None else (
            f'alpha {self.alpha:g}')
        parts = [alpha, f'scope {self.scope!r}', f'{self.noise} noise']
        if len(self.views) > 1:
            parts.append('views ' + ' '.join(map(str, self.views)))
        return ', '.join(parts)

    @property
    def answer_settings(self) -> str:
        """With how the noise is drawn."""
        pairs = 'antithetic' if self.antithetic else 'independent'
        return f'{super().answer_settings}, {pairs}, seed {self.seed}'

    @property
    def is_plain(self) -> bool:
        """Whether the only network is the unchanged model."""
        return (not self.members and self.draws_per_member == 1
                and len(self.views) == 1 and self.precision == 'float32')

    def draws(self, forward: Forward) -> Networks:
        """All K networks, ready to run."""
        if self.member_files and not self.members:
            raise ValueError(
                f'the members {list(self.member_files)} of the posterior are '
                'not loaded, since no weights were; load the checkpoint of '
                'the base into the model.')
        if not self.members and self.draws_per_member == 1:
            return Networks(forward, len(self))
        if self.noise == 'element':
            return ElementNetworks(self, forward)
        return self._of_bank(self.bank(), forward)

    def noise_free(self) -> Posterior:
        """The posterior with alpha 0: one network for each member."""
        posterior = cast(BNLPosterior, exact(self))
        posterior.alpha, posterior.networks = 0., None
        if not self.members:
            posterior.views = self.views[:1]
        return posterior

    def _of_bank(self, bank: Bank, forward: Forward) -> Networks:
        return ForkedNetworks(self, forward, bank, self.forks,
                              [self.layers[name] for name in bank])

    def bank(self) -> Bank:
        """Scale and shift of all K networks as the norms are now.

        It is built for every input. That takes a few large operations, and
        there is no reliable way to see whether a norm was changed.
        """
        return slice_values(self.build(self.draw()), slice(0, len(self)))

    def build(self, eps: Optional[dict[str, Tensor]]) -> Bank:
        """Fold members and draws into scale and shift, ``[K, C]`` a layer.

        Args:
            eps (dict, optional): ``[M, L, C]`` a layer; None for the
                noise-free networks, one a member.
        """
        bank: Bank = {}
        alphas = {} if eps is None else self.alphas()
        for group in self._alike(self._forking()):
            bank.update(self._fold(group, eps, alphas))
        return {name: bank[name] for name in self.layers if name in bank}

    def _alike(self, names: list[str]) -> list[list[str]]:
        """Group layers that can be folded together."""
        groups: dict[tuple, list[str]] = {}
        for name in names:
            layer = self.layers[name]
            key = (layer.FOLDED, layer.bias is not None, layer.weight.device,
                   layer.weight.dtype)
            groups.setdefault(key, []).append(name)
        return list(groups.values())

    def _fold(self, names: list[str], eps: Optional[dict[str, Tensor]],
              alphas: dict[str, float]) -> Bank:
        """The bank of some layers, computed as one layer with all channels."""
        layers = [self.layers[name] for name in names]
        first = layers[0].weight
        sizes = [layer.weight.numel() for layer in layers]
        members = self.members or [{}]
        tensors = {
            key: torch.stack([
                torch.cat([
                    tensor_of(layer, name, member, key).flatten()
                    for name, layer in zip(names, layers)])
                for member in members])
            for key in layers[0].FOLDED if getattr(layers[0], key) is not None
        }
        factor = torch.ones((1, len(members), sum(sizes)),
                            dtype=first.dtype, device=first.device)
        if eps is not None:
            noise = torch.cat([
                alphas.get(name, 0.) * eps[name].flatten(2) for name in names
            ], 2)
            factor = 1 + noise.transpose(0, 1).to(first)
        small = torch.cat([
            first.new_full((size, ), layer.fold_eps)
            for size, layer in zip(sizes, layers)])
        scale, shift = layers[0].fold(tensors, factor, small)
        rows = (part.detach().flatten(0, 1).split(sizes, 1)
                for part in (scale, shift))
        return {
            name: (s.reshape(-1, *layer.weight.shape),
                   t.reshape(-1, *layer.weight.shape))
            for name, layer, s, t in zip(names, layers, *rows)
        }

    def _forking(self) -> list[str]:
        """Layers with noise, and those in which a member has its own norm."""
        scope = set(self.in_scope)
        return [name for name in self.layers
                if name in scope or name in self._changed()]

    def _changed(self) -> set[str]:
        """Layers in which a member differs from the model.

        They are compared again only if a norm of the model was replaced or
        written to, because a comparison makes the host wait for the device.
        """
        own = [getattr(layer, key) for layer in self.layers.values()
               for key in layer.FOLDED]
        key = (id(self.members), tuple(map(_state_of, own)))
        if self._compared[0] != key:
            self._compared = key, {
                name for name, layer in self.layers.items()
                if any(_differs(layer, name, member)
                       for member in self.members)
            }
        return self._compared[1]

    def draw(self) -> dict[str, Tensor]:
        """eps of all layers, so that all scopes share their draws."""
        shapes = {n: layer.weight.shape for n, layer in self.layers.items()}
        key = (tuple(shapes.items()), max(1, len(self.members)),
               self.draws_per_member, self.antithetic, self.seed)
        known, eps = self._eps
        if known != key:
            eps = draw_eps(shapes, *key[1:])
            self._eps = key, eps
        return eps

    def forks(self, value: Bank, vmapped: bool) -> dict:
        """Handlers that run the model's norms as those of one network."""
        return {
            self.layers[name]: partial(
                self.layers[name].as_network, Network(*affine, vmapped))
            for name, affine in value.items()
        }


def _state_of(tensor: Optional[Tensor]) -> tuple:
    """A value that changes if a tensor is replaced or written to."""
    if tensor is None:
        return ()
    return tensor.data_ptr(), tensor.device, version_of(tensor)


def tensor_of(layer: BayesianNorm, name: str, member: dict[str, Tensor],
            key: str) -> Tensor:
    """A tensor of the layer, the member's where it has its own."""
    own = getattr(layer, key)
    return member.get(f'{name}.{key}', own).to(own)


def _differs(layer: BayesianNorm, name: str,
             member: dict[str, Tensor]) -> bool:
    """Whether a member's layer is another one than the model's."""
    return any(
        not torch.equal(tensor_of(layer, name, member, key),
                        getattr(layer, key))
        for key in layer.FOLDED if f'{name}.{key}' in member)
