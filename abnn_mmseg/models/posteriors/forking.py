"""Posteriors whose networks differ in some layers of one model."""
import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, Callable, Optional

import torch
from mmengine.logging import print_log
from torch import Tensor, nn

from abnn_mmseg.compat import tree_leaves, tree_map
from abnn_mmseg.models.passes import Handler, handling
from abnn_mmseg.models.posteriors.base import (
    Chunk,
    Forward,
    Networks,
    Posterior,
)
from abnn_mmseg.models.posteriors.draws import check_count
from abnn_mmseg.models.posteriors.memory import (
    draws_that_fit,
    is_out_of_memory,
)
from abnn_mmseg.models.posteriors.sharing import SharedTrunk
from abnn_mmseg.models.posteriors.views import View

# Returns the handlers of the forking layers for one network's values.
Forks = Callable[..., dict[nn.Module, Handler]]


class ForkingPosterior(Posterior):
    """K networks that share the part of the model before the first fork.

    Args:
        draws_per_pass (int, optional): Networks in one batched pass. By
            default chosen by device, free memory and image size.
        share_trunk (bool): Compute the part before the fork only once.
            Defaults to True.
        **kwargs: See :class:`Posterior`.

    Attributes:
        one_by_one (bool): Whether networks run one after the other. Set when
            ``torch.vmap`` cannot run the model.
    """

    def __init__(self,
                 draws_per_pass: Optional[int] = None,
                 share_trunk: bool = True,
                 **kwargs) -> None:
        super().__init__(**kwargs)
        self.draws_per_pass = draws_per_pass
        self.share_trunk = share_trunk
        self.one_by_one = False
        ForkingPosterior.check(self)

    def check(self) -> None:
        """Raise ValueError for a setting that cannot be used."""
        super().check()
        if self.draws_per_pass is not None:
            check_count('draws_per_pass', self.draws_per_pass,
                        'None to choose by memory')

    def give_up_vmap(self, reason: str) -> None:
        """Run networks one by one from now on."""
        self.one_by_one = True
        print_log(
            f'with {self.noise_settings} networks run one by one, since the '
            f'model cannot run several at once ({reason})', 'current',
            logging.WARNING)


class ForkedNetworks(Networks):
    """Networks that differ in some layers and share the trunk.

    Args:
        posterior (ForkingPosterior): The posterior of the networks.
        forward (Callable): The model's deterministic pass.
        values (Any): The values of all K networks: tensors ``[K, ...]``,
            alone or in dicts or tuples.
        forks (Callable): ``forks(value, vmapped)`` returns the handlers of a
            network's forking layers; ``vmapped`` means that the value is one
            of several under ``torch.vmap``.
        forking (Iterable[nn.Module]): Modules that differ between networks.
    """

    def __init__(self, posterior: ForkingPosterior, forward: Forward,
                 values: Any, forks: Forks,
                 forking: Iterable[nn.Module]) -> None:
        super().__init__(forward, len(tree_leaves(values)[0]))
        self.posterior = posterior
        self.values = values
        self.forks = forks
        self.forking = list(forking)
        self.trunks: dict[View, SharedTrunk] = {}

    def trunk(self, view: View) -> SharedTrunk:
        """The trunk of the networks that see a view."""
        if view not in self.trunks:
            self.trunks[view] = SharedTrunk(
                self.posterior.model, self.forking,
                self.posterior.share_trunk)
        return self.trunks[view]

    def chunks(self, numbers: Sequence[int], view: View,
               example: Tensor) -> Iterator[Chunk]:
        """Yield chunks of as many networks as fit into a pass."""
        numbers = list(numbers)
        trunk = self.trunk(view)
        # With vmap, a single network is slower and has nobody to share with.
        run = self._run_alone if len(numbers) == 1 else self.run
        for start in range(0, len(numbers), step := self._step(example)):
            # The step is 1 if the first chunk has given up vmap.
            chosen = numbers[start:start + step]
            yield partial(_run_next, run, slice_values(self.values, chosen),
                          trunk, count())

    def base(self) -> Chunk:
        """The original network, on the trunk of the draws if there is one."""
        trunk = self.trunks.get(View())
        if trunk is None or self.posterior.precision != 'float32':
            return self.plain
        return partial(self._plain_on, trunk, count())

    def _plain_on(self, trunk: SharedTrunk, windows: Iterator[int],
                  images: Tensor) -> Tensor:
        with handling(trunk.start(next(windows)).handlers({})):
            return self.plain(images)

    def _step(self, example: Tensor) -> int:
        """Networks in one pass."""
        if self.posterior.one_by_one:
            return 1
        return self.posterior.draws_per_pass or draws_that_fit(example)

    def run(self, values: Any, trunk: SharedTrunk, window: int,
            images: Tensor) -> Tensor:
        """Logits ``[n, B, C, H, W]`` of n networks on one window."""
        size = len(tree_leaves(values)[0])
        if size == 1 and trunk.knows(window):
            return self._run_alone(values, trunk, window, images)
        logits = self._run_several(values, trunk, window, images)
        trunk.mark_learned(window)
        return logits

    def _run_several(self, values: Any, trunk: SharedTrunk, window: int,
                     images: Tensor) -> Tensor:
        """Run networks at once, or one by one if the model cannot."""
        reason = None
        if not (self.posterior.one_by_one or _loses_autocast(images)):
            try:
                return self._run_vmapped(values, trunk, window, images)
            except RuntimeError as error:
                if is_out_of_memory(error):
                    raise
                reason = str(error).splitlines()[0]
        size = len(tree_leaves(values)[0])
        logits = torch.cat([
            self._run_one(slice_values(values, k), trunk, window, images)
            for k in range(size)
        ])
        # The networks run one by one, so vmap failed, not the images.
        if reason is not None:
            self.posterior.give_up_vmap(reason)
        return logits

    def _run_vmapped(self, values: Any, trunk: SharedTrunk, window: int,
                     images: Tensor) -> Tensor:

        def run(value, seen):
            """One network, from the first noisy layer on."""
            started = trunk.start(window, vmapped=True)
            with handling(started.handlers(self.forks(value, True))):
                return self.forward(seen)

        return torch.vmap(run, (0, None))(values, images)

    def _run_alone(self, values: Any, trunk: SharedTrunk, window: int,
                   images: Tensor) -> Tensor:
        return self._run_one(slice_values(values, 0), trunk, window, images)

    def _run_one(self, value: Any, trunk: SharedTrunk, window: int,
                 images: Tensor) -> Tensor:
        started = trunk.start(window)
        with handling(started.handlers(self.forks(value, False))):
            logits = self.plain(images)
        trunk.mark_learned(window)
        return logits


def _run_next(run: Callable, values: Any, trunk: SharedTrunk,
              windows: Iterator[int], images: Tensor) -> Tensor:
    return run(values, trunk, next(windows), images)


def slice_values(values: Any, which) -> Any:
    """Select the values of one network, or of several."""
    return tree_map(lambda tensor: tensor[which], values)


def _loses_autocast(images: Tensor) -> bool:
    """Whether autocast would have no effect, as inside vmap on a CPU."""
    return images.device.type == 'cpu' and torch.is_autocast_enabled('cpu')
