"""Deep ensembles: networks that were trained independently."""
import copy
import itertools
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Optional, Union

from mmseg.registry import MODELS
from torch import Tensor, nn

from abnn_mmseg.models.posteriors.base import (
    Chunk,
    Forward,
    Networks,
    Posterior,
    exact,
)
from abnn_mmseg.models.posteriors.views import View
from abnn_mmseg.utils.checkpoints import (
    check_intact,
    check_surplus,
    check_weights,
    is_counter,
    is_prior,
    is_same_state,
    map_state_dict,
)

if TYPE_CHECKING:
    from abnn_mmseg.models.segmentor import BayesianSegmentor


@MODELS.register_module()
class EnsemblePosterior(Posterior):
    """The networks of several full checkpoints (Lakshminarayanan et al.).

    The files are mapped into memory. For each answer, a copy of the model gets
    the weights of one file after the other, so memory does not grow with the
    number of files.

    Args:
        checkpoints (Sequence[str]): Checkpoints of this architecture, one for
            each network of the ensemble.
        **kwargs: See :class:`Posterior`.
    """

    def __init__(self, checkpoints: Sequence[Union[str, Path]] = (),
                 **kwargs) -> None:
        super().__init__(**kwargs)
        self.set_checkpoints(checkpoints)

    def set_checkpoints(self, checkpoints: Sequence[Union[str,
                                                          Path]]) -> None:
        """Replace the networks; none means the model alone."""
        self.checkpoints = [str(path) for path in checkpoints]
        self._states: list[dict[str, Tensor]] = []
        self._turn = threading.RLock()

    def __len__(self) -> int:
        return len(self.checkpoints) or len(self.views)

    @property
    def is_base(self) -> bool:
        """Whether there are no checkpoints."""
        return not self.checkpoints

    @property
    def noise_settings(self) -> str:
        """The number of checkpoints, as text."""
        return f'{len(self.checkpoints)} checkpoints'

    def make_networks(self, forward: Forward) -> Networks:
        """The networks of all checkpoints, ready to run."""
        if not self.checkpoints:
            return super().make_networks(forward)
        return EnsembleNetworks(self, forward)

    def noise_free(self) -> Posterior:
        """The posterior itself, in float32: it has no noise."""
        return exact(self)

    def weights(self) -> Sequence[dict[str, Tensor]]:
        """The weights of all checkpoints."""
        return self.states() if self.checkpoints else []

    def states(self) -> list[dict[str, Tensor]]:
        """The mapped weights of all networks, each checked once."""
        with self._turn:
            if not self._states:
                own = network_weights(self.model)
                states = [_read(path, own) for path in self.checkpoints]
                _check_distinct(states, self.checkpoints)
                self._states = states
            return self._states

    def __getstate__(self) -> dict:
        # A lock cannot be copied; the rest is loaded again when needed.
        return {**vars(self), '_turn': None, '_states': []}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state, _turn=threading.RLock())


class EnsembleNetworks(Networks):
    """The networks of an ensemble, one after the other."""

    def __init__(self, posterior: EnsemblePosterior,
                 forward: Forward) -> None:
        super().__init__(forward, len(posterior))
        self.states = posterior.states()
        self.own = network_weights(posterior.model)
        # Made anew for each answer, since the model may have changed.
        self.copy = shell_of(posterior.model)
        self.loaded: Optional[dict[str, Tensor]] = None

    def chunks(self, numbers: Sequence[int], view: View,
               example: Tensor) -> Iterator[Chunk]:
        """Yield one network at a time."""
        for number in numbers:
            yield partial(self.run, self.states[number])

    def run(self, state: dict[str, Tensor], images: Tensor) -> Tensor:
        """Logits ``[1, B, C, H, W]`` of the network with these weights."""
        if self.loaded is not state:
            for key, tensor in network_weights(self.copy).items():
                tensor.data = state[key].to(self.own[key])
            self.loaded = state
        return self.forward(images, self.copy)[None]


def shell_of(model: 'BayesianSegmentor') -> 'BayesianSegmentor':
    """A copy of a model whose tensors may be replaced.

    Until then they share the model's memory.
    """
    for name, module in model.named_modules():
        if isinstance(vars(module).get('forward'), FunctionType):
            raise ValueError(
                f'the forward of {name or "the model"} was replaced by a '
                'function, which would run with the weights of the base in '
                'every network of EnsemblePosterior; bind it to the module '
                'with types.MethodType.')
    shared: dict[int, Any] = {id(model.posterior): model.posterior}
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        new = tensor.detach()
        if isinstance(tensor, nn.Parameter):
            new = nn.Parameter(new, tensor.requires_grad)
        shared[id(tensor)] = new
    return copy.deepcopy(model, shared)


def network_weights(model: Optional[nn.Module]) -> dict[str, Tensor]:
    """The weights of a model, without the random prior of its loss."""
    assert model is not None
    state = model.state_dict(keep_vars=True)
    return {k: v for k, v in state.items() if not is_prior(k)}


def _check_distinct(states: Sequence[dict[str, Tensor]],
                    paths: Sequence[str]) -> None:
    """Raise ValueError if two checkpoints are one network.

    Such as the best one of a training, which may also be its last.
    """
    networks = [{name: value for name, value in state.items()
                 if not is_counter(name)} for state in states]
    for number, network in enumerate(networks):
        for known, path in zip(networks[:number], paths):
            if is_same_state(known, network):
                raise ValueError(
                    f'{path} and {paths[number]} hold the same network, '
                    'which would count twice; give it once.')


def _read(path: str, own: dict[str, Tensor]) -> dict[str, Tensor]:
    check_intact(path)
    state = map_state_dict(path)
    wrong = [k for k, v in own.items()
             if not is_counter(k) and (
                 k not in state or state[k].shape != v.shape)]
    if wrong:
        raise ValueError(
            f'{path} of EnsemblePosterior is a network of another '
            f'architecture: {len(wrong)} of {len(own)} tensors do not match, '
            f'such as {wrong[0]}; give checkpoints of one config.')
    check_surplus(state, own, path)
    state = {key: state.get(key, value.data) for key, value in own.items()}
    check_weights(state, path)
    return state
