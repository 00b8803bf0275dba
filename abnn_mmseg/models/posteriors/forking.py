"""Posteriors whose networks part ways inside one model."""
import logging
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Callable, Optional

import torch
from mmengine.logging import print_log
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from abnn_mmseg.models.posteriors.base import Networks, Posterior
from abnn_mmseg.models.posteriors.memory import (
    draws_that_fit,
    is_out_of_memory,
)
from abnn_mmseg.models.posteriors.sharing import SharedTrunk


class ForkingPosterior(Posterior):
    """K networks that share the model up to the layers that fork.

    Args:
        draws_per_pass (int, optional): Networks in one batched pass. None
            chooses by device, free memory and input size.
        tolerance (float, optional): Stop drawing for an image once the
            standard error of its mean probability is below.
        share_trunk (bool): Compute what comes before the fork once. False
            computes all of it for every network.
        views (dict, optional): See :class:`Posterior`.

    Attributes:
        one_by_one (bool): Whether networks run one after the other: set once
            ``torch.vmap`` turns out to be unable to run the model.
    """

    # What the user wrote that decides where networks fork.
    fork_option = 'scope'

    def __init__(self,
                 draws_per_pass: Optional[int] = None,
                 tolerance: Optional[float] = None,
                 share_trunk: bool = True,
                 views: Optional[dict] = None) -> None:
        super().__init__(views)
        if draws_per_pass is not None and draws_per_pass < 1:
            raise ValueError(f'draws_per_pass={draws_per_pass} must be at '
                             'least 1, or None to choose by memory.')
        if tolerance is not None and not tolerance > 0:
            raise ValueError(f'tolerance={tolerance} must be positive, such '
                             'as 0.01, or None to use all draws.')
        if tolerance is not None and len(self.views) > 1:
            raise ValueError(
                f'tolerance={tolerance} stops drawing before all views were '
                'seen; write tolerance=None or views=None.')
        self.draws_per_pass = draws_per_pass
        self.tolerance = tolerance
        self.share_trunk = share_trunk
        self.one_by_one = False

    def forked(self, run: Callable, values: Any,
               forking: Iterable[nn.Module],
               inputs: Tensor) -> Iterator[Networks]:
        """Yield the networks in chunks, the trunk computed once.

        Args:
            run (Callable): ``run(value, images, vmapped=False)``, the logits
                of the network that ``value`` says.
            values (Any): The values of all K networks: tensors ``[K, ...]``
                in dicts, tuples or alone.
            forking (Iterable[nn.Module]): Modules that differ by network.
            inputs (Tensor): Images of the size the networks will see.
        """
        count = len(tree_leaves(values)[0])
        step = self.draws_per_pass or draws_that_fit(inputs)
        if self.tolerance is not None:
            # Ask after each antithetic pair whether it was enough.
            step = min(step, 2)
        if self.one_by_one:
            step = 1
        trunk = SharedTrunk(self.model, forking, self.share_trunk)
        for start in range(0, count, step):
            stop = min(start + step, count)
            with trunk.one_pass():
                if stop - start == 1 and trunk.learned:
                    value = _slice(values, start)
                    yield partial(run_one, run, value)
                else:
                    value = _slice(values, slice(start, stop))
                    yield partial(self.run_many, run, value, trunk)

    def run_many(self, run: Callable, values: Any, trunk: SharedTrunk,
                 images: Tensor) -> Tensor:
        """The logits of several networks, at once or one by one."""
        count = len(tree_leaves(values)[0])
        start = trunk.mark()
        if not (self.one_by_one or _loses_autocast(images)):
            try:
                return torch.vmap(partial(run, vmapped=True), (0, None))(
                    values, images)
            except RuntimeError as error:
                self._give_up_vmap(error)
        trunk.by_order = True
        logits = []
        for k in range(count):
            trunk.rewind(start)
            logits.append(run(_slice(values, k), images))
        return torch.stack(logits)

    def _give_up_vmap(self, error: RuntimeError) -> None:
        """From now on one network after the other, unless memory ran out."""
        if is_out_of_memory(error):
            raise error
        reason = str(error).splitlines()[0]
        self.one_by_one = True
        where = f'{self.fork_option}={getattr(self, self.fork_option)!r}'
        print_log(
            f'with {where} networks run one by one, since the model cannot '
            f'run several at once ({reason})', 'current', logging.WARNING)


def run_one(run: Callable, value: Any, images: Tensor) -> Tensor:
    """The logits ``[1, B, C, H, W]`` of the network that ``value`` says."""
    return run(value, images)[None]


def _loses_autocast(images: Tensor) -> bool:
    """On a CPU, autocast does not know what vmap makes of convolutions."""
    return images.device.type == 'cpu' and torch.is_autocast_enabled('cpu')


def _slice(values: Any, which) -> Any:
    return tree_map(lambda tensor: tensor[which], values)
