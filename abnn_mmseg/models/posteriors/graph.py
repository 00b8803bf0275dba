"""Run the bank's networks as images of a batch, for graphs.

``torch.vmap`` cannot be exported with a dynamic image size. Here n networks
are n copies of one image in the batch, and image i of a norm's input gets
the scale and shift of network i.
"""
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Callable

from torch import Tensor, nn

from abnn_mmseg.compat import tree_map
from abnn_mmseg.models.passes import Handler, handling
from abnn_mmseg.models.posteriors.bank import Bank, BankPosterior
from abnn_mmseg.models.posteriors.forking import ForkedNetworks, slice_values
from abnn_mmseg.models.posteriors.views import View


class GraphNetworks:
    """K networks for one image, without ``vmap`` and without random numbers.

    Args:
        posterior (BankPosterior): The posterior of the networks.
        forward (Callable): The model's deterministic pass, from the size of
            the logits and images to logits.
        example (Tensor): One image, to find the modules that are shared.
        draws_per_pass (int): Networks in one batch. Fewer need less memory
            and make a larger graph.
    """

    def __init__(self, posterior: BankPosterior, forward: Callable,
                 example: Tensor, draws_per_pass: int) -> None:
        self.posterior = posterior
        bank: Bank = posterior.bank()
        self.bank = bank
        self.forward = forward
        self.draws_per_pass = draws_per_pass
        # Find the calls of modules before every fork.
        networks = ForkedNetworks(
            posterior, partial(forward, example.shape[2:]), bank,
            posterior.forks, [posterior.layers[name] for name in bank])
        self.views = posterior.views_of(len(networks))
        trunk = networks.trunk(View())
        networks.run(slice_values(bank, [0]), trunk, 0, example)
        self.shared = trunk.shared()
        self.candidates = trunk.candidates

    def logits(self, image: Tensor) -> Iterator[Tensor]:
        """Yield the logits ``[n, 1, C, H, W]`` of chunks of networks."""
        for view in dict.fromkeys(self.views):
            numbers = [k for k, own in enumerate(self.views) if own == view]
            outputs: dict = {}
            for start in range(0, len(numbers), self.draws_per_pass):
                chunk = numbers[start:start + self.draws_per_pass]
                yield view.through(
                    partial(self._run, image.shape[2:], chunk, outputs), image)

    def _run(self, size: Sequence[int], numbers: Sequence[int],
             outputs: dict, image: Tensor) -> Tensor:
        copies = len(numbers)
        value = slice_values(self.bank, list(numbers))
        calls: dict[nn.Module, int] = {}
        handlers: dict[nn.Module, Handler] = {
            module: partial(self._share, module, calls, outputs, copies)
            for module in self.candidates
        }
        handlers.update(self.posterior.forks(value, False))
        with handling(handlers):
            return self.forward(size, _repeat(copies, image))[:, None]

    def _share(self, module: nn.Module, calls: dict, outputs: dict,
               copies: int, forward, *args, **kwargs):
        """Run a shared module once, on one image, for all networks."""
        calls[module] = calls.get(module, -1) + 1
        key = module, calls[module]
        if key not in self.shared:
            return forward(*args, **kwargs)
        if key not in outputs:
            args, kwargs = tree_map(_first_image, (args, kwargs))
            outputs[key] = forward(*args, **kwargs)
        return tree_map(partial(_repeat, copies), outputs[key])


def _first_image(value):
    return value[:1] if isinstance(value, Tensor) else value


def _repeat(copies: int, value):
    """Copies of one image, which the caller may change."""
    if not isinstance(value, Tensor):
        return value
    return value.expand(copies, *value.shape[1:]).clone()
