"""Deep ensembles: networks that were trained apart."""
import copy
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Optional, Union

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
    map_state_dict,
)

if TYPE_CHECKING:
    from abnn_mmseg.models.segmentor import BayesianSegmentor


@MODELS.register_module()
class EnsemblePosterior(Posterior):
    """The networks of several full checkpoints (Lakshminarayanan et al.).

    The files are mapped into memory, and one copy of the model takes the
    weights of one file after the other. So memory does not grow with their
    number. Threads use the copy in turn.

    Args:
        checkpoints (Sequence[str]): Checkpoints of this very architecture,
            all networks of the ensemble.
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
        self._copy: Optional[BayesianSegmentor] = None
        self._loaded: Optional[dict[str, Tensor]] = None
        self._turn = threading.RLock()

    def __len__(self) -> int:
        return len(self.checkpoints) or len(self.views)

    @property
    def is_plain(self) -> bool:
        """Whether there are no checkpoints, and one view."""
        return (not self.checkpoints and len(self.views) == 1
                and self.precision == 'float32')

    @property
    def noise_settings(self) -> str:
        """The number of checkpoints, as text."""
        return f'{len(self.checkpoints)} checkpoints'

    def draws(self, forward: Forward) -> Networks:
        """The networks of all checkpoints, ready to run."""
        if not self.checkpoints:
            return super().draws(forward)
        return EnsembleNetworks(self, forward)

    def noise_free(self) -> Posterior:
        """The posterior itself, in float32: it has no noise."""
        return exact(self)

    def weights(self) -> Sequence[dict[str, Tensor]]:
        """Those of all checkpoints."""
        return self.states() if self.checkpoints else []

    def states(self) -> list[dict[str, Tensor]]:
        """The mapped weights of all networks, each checked once."""
        with self._turn:
            if not self._states:
                own = weights_of(self.model)
                self._states = [_read(path, own) for path in self.checkpoints]
            return self._states

    def run(self, forward: Forward, state: dict[str, Tensor],
            images: Tensor) -> Tensor:
        """Logits ``[1, B, C, H, W]`` of the network with these weights."""
        with self._turn:
            if self._copy is None:
                self._copy = copy.deepcopy(self.model)
            if self._loaded is not state:
                self._load(state)
            return forward(images, self._copy)[None]

    def _load(self, state: dict[str, Tensor]) -> None:
        own = weights_of(self.model)
        for key, tensor in weights_of(self._copy).items():
            tensor.data = state[key].to(own[key])
        self._loaded = state

    def __getstate__(self) -> dict:
        # A lock cannot be copied; the rest is read again when needed.
        return {**vars(self), '_turn': None, '_copy': None, '_states': [],
                '_loaded': None}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state, _turn=threading.RLock())


class EnsembleNetworks(Networks):
    """The networks of an ensemble, one after the other."""

    def __init__(self, posterior: EnsemblePosterior,
                 forward: Forward) -> None:
        super().__init__(forward, len(posterior))
        self.posterior = posterior

    def chunks(self, numbers: Sequence[int], view: View,
               example: Tensor) -> Iterator[Chunk]:
        """Yield one network at a time."""
        states = self.posterior.states()
        for number in numbers:
            yield partial(self.posterior.run, self.forward, states[number])


def weights_of(model: Optional[nn.Module]) -> dict[str, Tensor]:
    """The weights of a model, without the random prior of its loss."""
    assert model is not None
    state = model.state_dict(keep_vars=True)
    return {k: v for k, v in state.items() if not is_prior(k)}


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
