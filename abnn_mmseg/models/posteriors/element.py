"""Noise in every pixel, as in the authors' code, for comparison."""
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Optional

import torch
from torch import Tensor, nn

from abnn_mmseg.models.bayesian_norm import Network, drawing_from
from abnn_mmseg.models.passes import Handler, handling
from abnn_mmseg.models.posteriors.base import Chunk, Forward, Networks
from abnn_mmseg.models.posteriors.forking import slice_values
from abnn_mmseg.models.posteriors.views import View

if TYPE_CHECKING:
    from abnn_mmseg.models.posteriors.abnn import BNLPosterior


class ElementNetworks(Networks):
    """Networks with fresh noise in every pixel; each draw is one pass."""

    def __init__(self, posterior: 'BNLPosterior', forward: Forward) -> None:
        super().__init__(forward, len(posterior))
        self.posterior = posterior
        self.bank = posterior.build(None)

    def chunks(self, numbers: Sequence[int], view: View,
               example: Tensor) -> Iterator[Chunk]:
        """Yield one network at a time."""
        for number in numbers:
            # All windows draw from this generator, one after the other. It is
            # on the CPU, so noise does not depend on the device.
            generator = torch.Generator().manual_seed(
                self.posterior.seed + number)
            yield partial(self._run, number, generator)

    def _run(self, number: int, generator: torch.Generator,
             images: Tensor) -> Tensor:
        with handling(self._forks(number)), drawing_from(generator):
            return self.plain(images)

    def _forks(self, number: int) -> dict[nn.Module, Handler]:
        posterior = self.posterior
        alphas = posterior.alphas()
        which = number % max(1, len(posterior.members))
        member = posterior.members[which] if posterior.members else {}
        handlers: dict[nn.Module, Handler] = {}
        for name, (scale, shift) in slice_values(self.bank, which).items():
            layer = posterior.layers[name]
            bias: Optional[Tensor] = layer.bias
            if bias is not None:
                bias = member.get(f'{name}.bias', bias).to(bias)
            network = Network(
                scale, shift, False, alphas.get(name, 0.), bias)
            handlers[layer] = partial(layer.as_network, network)
        return handlers
