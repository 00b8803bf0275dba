"""Deep ensembles: networks that were trained apart."""
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Optional, Union

from mmseg.registry import MODELS
from torch import Tensor, nn

from abnn_mmseg.models.posteriors.base import Forward, Networks, Posterior
from abnn_mmseg.utils.checkpoints import (
    check_weights,
    is_counter,
    map_state_dict,
)


@MODELS.register_module()
class EnsemblePosterior(Posterior):
    """The networks of several full checkpoints (Lakshminarayanan et al.).

    They are streamed: the files stay mapped into memory, which the system
    fills and frees as it likes, and the model takes the weights of one after
    the other. So memory does not grow with their number.

    Args:
        checkpoints (Sequence[str]): Checkpoints of this very architecture,
            all networks of the ensemble.
        views (dict, optional): See :class:`Posterior`.
    """

    def __init__(self, checkpoints: Sequence[Union[str, Path]] = (),
                 views: Optional[dict] = None) -> None:
        super().__init__(views)
        self.set_checkpoints(checkpoints)

    def set_checkpoints(self, checkpoints: Sequence[Union[str,
                                                          Path]]) -> None:
        """Replace the networks; none means the model alone."""
        self.checkpoints = [str(path) for path in checkpoints]
        self._states: list[dict[str, Tensor]] = []

    def __len__(self) -> int:
        return max(1, len(self.checkpoints))

    @property
    def is_network(self) -> bool:
        return not self.checkpoints

    def networks(self, forward: Forward, inputs: Tensor) -> Iterator[Networks]:
        if self.is_network:
            yield from super().centre(forward, inputs)
        for state in self.states():
            with _weights(self.model, state):
                yield lambda images: forward(images)[None]

    def centre(self, forward: Forward, inputs: Tensor) -> Iterator[Networks]:
        """No network has noise: the same ones."""
        return self.networks(forward, inputs)

    def states(self) -> list[dict[str, Tensor]]:
        """The mapped weights of all networks, each checked once."""
        if not self._states:
            own = _own(self.model)
            self._states = [_read(path, own) for path in self.checkpoints]
        return self._states


def _own(model: nn.Module) -> dict[str, Tensor]:
    """Weights, without what only a loss needs."""
    state = model.state_dict(keep_vars=True)
    return {k: v for k, v in state.items() if not k.endswith('.eta')}


def _read(path: str, own: dict[str, Tensor]) -> dict[str, Tensor]:
    state = map_state_dict(path)
    wrong = [k for k, v in own.items()
             if not is_counter(k) and (
                 k not in state or state[k].shape != v.shape)]
    if wrong:
        raise ValueError(
            f'{path} of EnsemblePosterior is a network of another '
            f'architecture: {len(wrong)} of {len(own)} tensors do not match, '
            f'such as {wrong[0]}; give checkpoints of one config.')
    state = {key: state.get(key, value.data) for key, value in own.items()}
    check_weights(state, path)
    return state


@contextmanager
def _weights(model: nn.Module, state: dict[str, Tensor]):
    """For the time of a pass, the model has these weights."""
    own = {key: (tensor, tensor.data) for key, tensor in _own(model).items()}
    try:
        for key, (tensor, before) in own.items():
            tensor.data = state[key].to(before.device, before.dtype)
        yield
    finally:
        for tensor, before in own.values():
            tensor.data = before
