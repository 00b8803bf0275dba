"""Fork late: what no draw changes is computed once, however many draws."""
from collections.abc import Iterable
from contextlib import contextmanager
from typing import Callable

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

MAX_BYTES = 2 * 1024**3


class SharedTrunk:
    """Remembers the outputs of modules that only saw unforked input.

    Candidates are the largest modules that hold no forking layer. While the
    first pass runs under ``vmap``, a candidate whose arguments carry no
    network dimension is upstream of every fork, so its output holds for all
    passes to come. Without ``vmap``, what runs before the first forking
    layer does is upstream. Call i of a module in a later pass gets the
    output of call i in the first one, which also tells sliding windows
    apart.

    One object serves the passes over one input.

    Args:
        model (nn.Module): The segmentor.
        forking (Iterable[nn.Module]): The layers that differ by network.
        enabled (bool): False shares nothing.
        max_bytes (int): Remember no more than this; what is not remembered
            is computed again. Defaults to 2 GiB.
    """

    def __init__(self,
                 model: nn.Module,
                 forking: Iterable[nn.Module],
                 enabled: bool = True,
                 max_bytes: int = MAX_BYTES) -> None:
        self.forking = list(forking)
        self.candidates = (
            _largest_without(model, set(self.forking)) if enabled else [])
        # Whether all that can be shared is known.
        self.learned = not enabled
        # Whether the order of calls tells what is upstream, for want of vmap.
        self.by_order = False
        self._forked = False
        self._calls: dict[nn.Module, int] = {}
        self._memory: dict[tuple[nn.Module, int], _Output] = {}
        self._budget = max_bytes

    @contextmanager
    def one_pass(self):
        """Share within this pass over all windows."""
        self.rewind({})
        hooks = [] if self.learned else [
            layer.register_forward_pre_hook(self._note_fork)
            for layer in self.forking
        ]
        try:
            with self.wrapped(self._sharing):
                yield
        finally:
            for hook in hooks:
                hook.remove()
        self.learned = True

    @contextmanager
    def wrapped(self, wrap: Callable[[nn.Module, Callable], Callable]):
        """For a while, candidates run what ``wrap`` makes of their pass."""
        for module in self.candidates:
            module.forward = wrap(module, module.forward)
        try:
            yield
        finally:
            for module in self.candidates:
                del module.forward

    def shared(self) -> set[tuple[nn.Module, int]]:
        """The calls, module and number, whose output is remembered."""
        return set(self._memory)

    def mark(self) -> dict[nn.Module, int]:
        """Where in the pass a window starts, for :meth:`rewind`."""
        self._forked = False
        return dict(self._calls)

    def rewind(self, mark: dict[nn.Module, int]) -> None:
        """Another network is about to see the window that starts there."""
        self._forked = False
        self._calls = dict(mark)

    def _note_fork(self, *_) -> None:
        self._forked = True

    def _sharing(self, module: nn.Module, forward: Callable) -> Callable:

        def sharing_forward(*args, **kwargs):
            call = self._calls[module] = self._calls.get(module, -1) + 1
            known = self._memory.get((module, call))
            if known is not None and known.untouched:
                return known.output
            upstream = not (self.by_order and self._forked)
            output = forward(*args, **kwargs)
            if upstream and not self.learned:
                self._learn((module, call), (args, kwargs), output)
            return output

        return sharing_forward

    def _learn(self, key: tuple, arguments, output) -> None:
        new = _Output(output)
        if new.sharable(arguments) and new.nbytes <= self._budget:
            self._memory[key] = new
            self._budget -= new.nbytes


class _Output:
    """A module's output, and whether somebody has written into it since."""

    def __init__(self, output) -> None:
        self.output = output
        self.tensors = _tensors(output)
        self.nbytes = sum(t.numel() * t.element_size() for t in self.tensors)
        self.versions = self._versions()

    def _versions(self) -> list:
        # Inference tensors have no version, so nobody could tell.
        return [None if t.is_inference() else t._version
                for t in self.tensors]

    @property
    def untouched(self) -> bool:
        return self.versions == self._versions()

    def sharable(self, arguments) -> bool:
        tensors = _tensors(arguments) + self.tensors
        forked = any(torch._C._functorch.is_batchedtensor(t) for t in tensors)
        return not forked and None not in self.versions


def _tensors(values) -> list[Tensor]:
    return [v for v in tree_leaves(values) if isinstance(v, Tensor)]


def _largest_without(module: nn.Module,
                     forking: set[nn.Module]) -> list[nn.Module]:
    # A ModuleList is no candidate: nobody calls it, only what it holds.
    is_called = type(module).forward is not nn.Module.forward
    if is_called and not any(m in forking for m in module.modules()):
        return [module]
    found: list[nn.Module] = []
    for child in module.children():
        found += _largest_without(child, forking)
    return list(dict.fromkeys(found))
