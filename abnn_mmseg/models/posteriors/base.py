"""The one interface of every posterior: it yields networks."""
from typing import TYPE_CHECKING, Callable, Iterator

from mmseg.registry import MODELS
from torch import Tensor

if TYPE_CHECKING:
    from ..segmentor import BayesianSegmentor

# From images [B, 3, H, W] to logits [B, C, H, W]: the model's own pass.
Forward = Callable[[Tensor], Tensor]
# From images to the logits [n, B, C, H, W] of n networks.
Networks = Callable[[Tensor], Tensor]


class Posterior:
    """K networks that answer for one model.

    A posterior is attached once to the model whose networks it holds. Asked
    for :meth:`networks`, it yields them in chunks of n: functions that can
    be called on any number of images or windows until the next chunk.
    """

    model: 'BayesianSegmentor'

    def attach(self, model: 'BayesianSegmentor') -> None:
        """Get to know the model; called in the segmentor's constructor."""
        self.model = model

    def __len__(self) -> int:
        """How many networks there are."""
        return 1

    @property
    def is_model(self) -> bool:
        """Whether the only network is the attached model as it stands."""
        return False

    def networks(self, forward: Forward, inputs: Tensor) -> Iterator[Networks]:
        """Yield all K networks, chunk by chunk.

        Args:
            forward (Callable): The model's deterministic pass.
            inputs (Tensor): Images of the size the networks will see.
        """
        raise NotImplementedError

    def centre(self, forward: Forward, inputs: Tensor) -> Iterator[Networks]:
        """Yield the noise-free networks only."""
        yield lambda images: forward(images)[None]


@MODELS.register_module()
class DeterministicPosterior(Posterior):
    """The trained network alone: the baseline of every comparison."""

    @property
    def is_model(self) -> bool:
        return True

    def networks(self, forward: Forward, inputs: Tensor) -> Iterator[Networks]:
        return self.centre(forward, inputs)
