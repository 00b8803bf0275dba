"""Some networks of another posterior."""
import copy
from collections.abc import Iterator, Sequence
from typing import Optional

from torch import Tensor

from abnn_mmseg.models.posteriors.base import (
    Chunk,
    Forward,
    Networks,
    Posterior,
)
from abnn_mmseg.models.posteriors.views import View


class ChosenNetworks(Posterior):
    """Some networks of another posterior, each with its own view.

    The mean over networks that are chosen at random is an unbiased estimate
    of the mean over all of them.

    Args:
        posterior (Posterior): Attached to a model.
        numbers (Sequence[int]): Which networks.
        seed (int, optional): Draw the networks from this seed, where they
            are drawn. Defaults to that of the posterior.
    """

    def __init__(self, posterior: Posterior, numbers: Sequence[int],
                 seed: Optional[int] = None) -> None:
        super().__init__(precision=posterior.precision)
        self.posterior = copy.copy(posterior)
        if seed is not None:
            self.posterior.seed = seed
        self.numbers = list(numbers)
        self.attach(posterior.model)

    def __len__(self) -> int:
        return len(self.numbers)

    def draws(self, forward: Forward) -> Networks:
        """The chosen networks."""
        return _Chosen(self.posterior.draws(forward), self.numbers)

    def views_of(self, count: int) -> list[View]:
        """The views that the chosen networks have in their posterior."""
        views = self.posterior.views_of(len(self.posterior))
        return [views[number] for number in self.numbers[:count]]

    def noise_free(self) -> Posterior:
        """All noise-free networks of the posterior."""
        return self.posterior.noise_free()

    def observe(self, statistics, outputs: Tensor) -> None:
        """As the posterior does."""
        self.posterior.observe(statistics, outputs)


class _Chosen(Networks):
    """Some of other networks."""

    def __init__(self, networks: Networks, numbers: list[int]) -> None:
        super().__init__(networks.forward, len(numbers))
        self.networks = networks
        self.numbers = numbers

    def chunks(self, numbers: Sequence[int], view: View,
               example: Tensor) -> Iterator[Chunk]:
        """Those of the posterior with the chosen numbers."""
        return self.networks.chunks(
            [self.numbers[k] for k in numbers], view, example)

    def base(self) -> Chunk:
        """The original network."""
        return self.networks.base()
