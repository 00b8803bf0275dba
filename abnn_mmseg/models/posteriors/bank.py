"""The bank: K networks that differ in their norms' affine step only."""
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Optional, Union, cast

import torch
from torch import Tensor

from abnn_mmseg.compat import version_of
from abnn_mmseg.models.architectures import AUXILIARY_HEAD
from abnn_mmseg.models.bayesian_norm import (
    BayesianNorm,
    Network,
    bayesian_layers,
)
from abnn_mmseg.models.posteriors.base import Forward, Networks, exact
from abnn_mmseg.models.posteriors.draws import check_count
from abnn_mmseg.models.posteriors.forking import (
    ForkedNetworks,
    ForkingPosterior,
    slice_values,
)
from abnn_mmseg.models.scopes import Scope, resolve

if TYPE_CHECKING:
    from abnn_mmseg.models.segmentor import BayesianSegmentor

# Scale and shift, [K, C] each, by layer.
Bank = dict[str, tuple[Tensor, Tensor]]


class BankPosterior(ForkingPosterior):
    """K networks that differ only in their norms' affine step.

    In eval, layer c of network k is ``x * scale[k] + shift[k]`` with

        scale = gamma_k / sigma_k
        shift = beta_k - mu_k * scale

    on the raw input of a batch norm. In other families the layer normalizes,
    so sigma = 1 and mu = 0. So a network is two vectors per layer, used for
    every image, window and frame.

    A subclass defines the norms of the networks (:meth:`norms`) and the noise
    on their gammas (:meth:`draw`).

    Args:
        scope (str | Sequence[str]): The layers that are random, see
            :func:`abnn_mmseg.models.scopes.resolve`. Only norms in the scope
            train, unless the segmentor has ``finetune='all'``. Defaults to
            'all'.
        members (str | Sequence[str], optional): Member files to load.
        networks (int, optional): Use only the first networks. Defaults to
            all.
        **kwargs: See :class:`ForkingPosterior`.
    """

    scope: Scope
    takes_members = True
    # Members may be less accurate on images unlike those they were trained
    # on, so the class map is that of the base by default.
    prediction = 'base'
    trains = True

    def __init__(self,
                 scope: Scope = 'all',
                 members: Union[None, str, Sequence[str]] = None,
                 networks: Optional[int] = None,
                 **kwargs) -> None:
        super().__init__(**kwargs)
        self.scope = scope
        self.networks = networks
        self.member_files = [members] if isinstance(members, str) else members
        # Copies share it: the centre has other norms than the draws.
        self._compared: deque[tuple[list, list, set[str]]] = deque(maxlen=2)

    def check(self) -> None:
        """Raise ValueError for a setting that cannot be used."""
        super().check()
        if self.networks is not None:
            check_count('networks', self.networks, 'None for all')

    def attach(self, model: 'BayesianSegmentor') -> None:
        """Find the layers that can be random, and check the scope."""
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
        """Names of the layers that are random."""
        return resolve(self.every_layer, self.scope)

    def set_members(self, members: list[dict[str, Tensor]]) -> None:
        """Replace the members; an empty list is the norms of the model."""
        self.members = members

    def norms(self) -> list[dict[str, Tensor]]:
        """The norms of each network before any noise: the members."""
        return self.members

    def draw(self) -> Optional[dict[str, Tensor]]:
        """Noise on the gammas of all layers, see :meth:`build`."""
        return None

    def __len__(self) -> int:
        every = max(1, len(self.norms()))
        return min(every, self.networks or every)

    @property
    def is_base(self) -> bool:
        """Whether every network has the norms of the model."""
        return not self.norms()

    def make_networks(self, forward: Forward) -> Networks:
        """All K networks, ready to run."""
        self._check_loaded()
        if self.is_base:
            return Networks(forward, len(self))
        bank = self.bank()
        return ForkedNetworks(self, forward, bank, self.forks,
                              [self.layers[name] for name in bank])

    def noise_free(self) -> 'BankPosterior':
        """The posterior without noise: one network for each member."""
        return cast(BankPosterior, exact(self))

    def _check_loaded(self) -> None:
        if self.member_files and not self.members:
            raise ValueError(
                f'the members {list(self.member_files)} of the posterior are '
                'not loaded, since no weights were; load the checkpoint of '
                'the base into the model.')

    def bank(self) -> Bank:
        """Scale and shift of all K networks.

        They are computed for every input, by a few large operations, because
        there is no reliable way to notice that a norm was changed.
        """
        return slice_values(self.build(self.draw()), slice(0, len(self)))

    def build(self, eps: Optional[dict[str, Tensor]]) -> Bank:
        """Compute scale and shift of all networks, ``[K, C]`` by layer.

        Args:
            eps (dict, optional): Noise ``[M, L, C]`` by layer; None for the
                noise-free networks, one per member.
        """
        bank: Bank = {}
        alphas = {} if eps is None else self.alphas()
        for group in self._alike(self._forking()):
            bank.update(self._fold(group, eps, alphas))
        return {name: bank[name] for name in self.layers if name in bank}

    def _alike(self, names: list[str]) -> list[list[str]]:
        """Group layers that can be computed together."""
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
        members = self.norms() or [{}]
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
        """Layers with noise, and those in which a member differs."""
        chosen = {*self.in_scope, *self._changed()}
        return [name for name in self.layers if name in chosen]

    def _changed(self) -> set[str]:
        """Layers in which a member differs from the model.

        They are compared again only if a norm of the model or of a member was
        replaced or changed, because the host waits for a comparison.
        """
        norms = self.norms()
        tensors = [getattr(layer, key) for layer in self.layers.values()
                   for key in layer.FOLDED]
        tensors += tensors_of(norms)
        states = list(map(state_of, tensors))
        for known, _, changed in list(self._compared):
            if known == states:
                return changed
        changed = {
            name for name, layer in self.layers.items()
            if any(_differs(layer, name, member) for member in norms)
        }
        self._compared.append((states, kept(tensors), changed))
        return changed

    def forks(self, value: Bank, vmapped: bool) -> dict:
        """Handlers that run the model's norms as those of one network."""
        return {
            self.layers[name]: partial(
                self.layers[name].as_network, Network(*affine, vmapped))
            for name, affine in value.items()
        }


def tensors_of(norms: Sequence[dict[str, Tensor]]) -> list[Tensor]:
    """All tensors of several networks' norms."""
    return [tensor for state in norms for tensor in state.values()]


def state_of(tensor: Optional[Tensor]) -> tuple:
    """A value that changes if a tensor is replaced or changed in place.

    The memory of the tensor must be :func:`kept`; otherwise another tensor
    could be stored there.
    """
    if tensor is None:
        return ()
    return tensor.data_ptr(), tensor.device, version_of(tensor)


def kept(tensors: Iterable[Optional[Tensor]]) -> list[Tensor]:
    """References that keep the memory of tensors from being reused."""
    return [tensor.detach() for tensor in tensors if tensor is not None]


def tensor_of(layer: BayesianNorm, name: str, member: dict[str, Tensor],
            key: str) -> Tensor:
    """A tensor of the member's layer, or of the model's if it has none."""
    own = getattr(layer, key)
    return member.get(f'{name}.{key}', own).to(own)


def _differs(layer: BayesianNorm, name: str,
             member: dict[str, Tensor]) -> bool:
    """Whether a member's layer differs from the model's."""
    return any(
        not torch.equal(tensor_of(layer, name, member, key),
                        getattr(layer, key))
        for key in layer.FOLDED if f'{name}.{key}' in member)
