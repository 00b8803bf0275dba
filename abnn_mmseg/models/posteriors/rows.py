"""The bank's networks as rows of a batch: plain tensor code for graphs.

``torch.vmap`` cannot be exported with a dynamic image size. Here n networks
are n copies of one image in the batch, and row i of a norm's input gets the
scale and shift of network i.
"""
from collections.abc import Iterator
from functools import partial
from typing import Callable

from torch import Tensor
from torch.utils._pytree import tree_map

from abnn_mmseg.models.posteriors.bank import Bank, BNLPosterior, slice_bank
from abnn_mmseg.models.posteriors.base import Forward
from abnn_mmseg.models.posteriors.sharing import SharedTrunk


class BankRows:
    """K networks for one image, without ``vmap`` and random numbers.

    Args:
        posterior (BNLPosterior): Whose networks.
        bank (Bank): Their norms.
        forward (Callable): The model's deterministic pass.
        example (Tensor): One image, to see what all networks share.
        draws_per_pass (int): Rows in a pass: memory against the size of the
            graph.
    """

    def __init__(self, posterior: BNLPosterior, bank: Bank, forward: Forward,
                 example: Tensor, draws_per_pass: int) -> None:
        self.posterior = posterior
        self.bank = bank
        self.forward = forward
        self.draws_per_pass = draws_per_pass
        self.trunk = SharedTrunk(
            posterior.model, [posterior.layers[name] for name in bank],
            posterior.share_trunk)
        self.shared = self._learn(example)

    def _learn(self, example: Tensor) -> set[tuple]:
        """Calls of modules that lie before every fork."""
        with self.trunk.one_pass():
            self.posterior.run_many(
                partial(self.posterior.run, self.forward),
                slice_bank(self.bank, slice(0, 1)), self.trunk, example)
        return self.trunk.shared()

    def logits(self, image: Tensor) -> Iterator[Tensor]:
        """Yield the logits ``[n, 1, C, H, W]`` of chunks of networks."""
        count = len(next(iter(self.bank.values())).scale)
        memory: dict = {}
        for start in range(0, count, self.draws_per_pass):
            rows = min(self.draws_per_pass, count - start)
            chunk = slice_bank(self.bank, slice(start, start + rows))
            with self.trunk.wrapped(self._sharing(memory, rows)):
                logits = self.posterior.run(
                    self.forward, chunk, _repeat(rows, image))
            yield logits[:, None]

    def _sharing(self, memory: dict, rows: int) -> Callable:
        """Let shared modules see one row, once, and give all the same."""
        calls: dict = {}

        def wrap(module, forward):

            def sharing_forward(*args, **kwargs):
                calls[module] = calls.get(module, -1) + 1
                key = module, calls[module]
                if key not in self.shared:
                    return forward(*args, **kwargs)
                if key not in memory:
                    args, kwargs = tree_map(_first_row, (args, kwargs))
                    memory[key] = forward(*args, **kwargs)
                return tree_map(partial(_repeat, rows), memory[key])

            return sharing_forward

        return wrap


def _first_row(value):
    return value[:1] if isinstance(value, Tensor) else value


def _repeat(rows: int, value):
    """Copies, as a caller may write into its own."""
    if not isinstance(value, Tensor):
        return value
    return value.expand(rows, *value.shape[1:]).clone()
