"""Share the trunk: the part of a pass that is equal for all networks."""
from collections.abc import Iterable
from functools import partial

from torch import Tensor, nn

from abnn_mmseg.compat import is_vmapped, tree_leaves, version_of
from abnn_mmseg.models.passes import Handler, let_handle

# Memory for shared outputs; other outputs are computed again.
MAX_BYTES = 2 * 1024**3


class SharedTrunk:
    """Keeps the outputs of modules before the first noisy layer.

    Candidates are the largest modules without a forking layer. If, in a first
    pass under ``vmap``, the arguments of a candidate have no network
    dimension, then it runs before every fork, and its output is valid for all
    later passes. Without ``vmap``, these are the modules that run before the
    first forking layer. In a later pass over the same window, call i of a
    module returns the output of call i in the first pass.

    An object is used for the passes over one view of one input.

    Args:
        model (nn.Module): The segmentor.
        forking (Iterable[nn.Module]): Layers that differ between networks.
        enabled (bool): Whether anything is shared. Defaults to True.
    """

    def __init__(self,
                 model: nn.Module,
                 forking: Iterable[nn.Module],
                 enabled: bool = True) -> None:
        self.forking = list(forking)
        self.candidates = (
            _largest_without(model, set(self.forking)) if enabled else [])
        let_handle(self.candidates)
        self.enabled = enabled
        # Windows whose first pass is finished.
        self.learned: set[int] = set()
        self.outputs: dict[tuple[nn.Module, int, int], _Output] = {}
        self.budget = MAX_BYTES

    def knows(self, window: int) -> bool:
        """Whether the shared outputs of a window are known."""
        return not self.enabled or window in self.learned

    def start(self, window: int, vmapped: bool = False) -> 'TrunkPass':
        """Start a pass over a window, of one network or several."""
        return TrunkPass(self, window, vmapped)

    def mark_learned(self, window: int) -> None:
        """Note that the first pass over a window is finished."""
        self.learned.add(window)

    def shared(self) -> set[tuple[nn.Module, int]]:
        """The calls, module and number, whose output is kept."""
        return {(module, call) for module, _, call in self.outputs}

    def learn(self, key: tuple, arguments, output) -> None:
        """Keep an output if it may be shared and there is room."""
        new = _Output(output)
        if new.sharable(arguments) and new.nbytes <= self.budget:
            self.outputs[key] = new
            self.budget -= new.nbytes


class TrunkPass:
    """One pass over one window: counts calls and notes the first fork."""

    def __init__(self, trunk: SharedTrunk, window: int,
                 vmapped: bool) -> None:
        self.trunk = trunk
        self.window = window
        self.vmapped = vmapped
        self.forked = False
        self.calls: dict[nn.Module, int] = {}

    def handlers(self, forks: dict[nn.Module, Handler]
                 ) -> dict[nn.Module, Handler]:
        """Handlers of the candidates and of the forking layers."""
        handlers: dict[nn.Module, Handler] = {
            module: partial(self._share, module)
            for module in self.trunk.candidates
        }
        for module, handler in forks.items():
            handlers[module] = partial(self._fork, handler)
        return handlers

    def _fork(self, handler: Handler, *args, **kwargs):
        self.forked = True
        return handler(*args, **kwargs)

    def _share(self, module: nn.Module, forward, *args, **kwargs):
        call = self.calls[module] = self.calls.get(module, -1) + 1
        key = module, self.window, call
        known = self.trunk.outputs.get(key)
        if known is not None and known.untouched:
            return known.output
        upstream = self.vmapped or not self.forked
        output = forward(*args, **kwargs)
        if upstream and not self.trunk.knows(self.window):
            self.trunk.learn(key, (args, kwargs), output)
        return output


class _Output:
    """A module's output, which knows whether it was changed in place."""

    def __init__(self, output) -> None:
        self.output = output
        self.tensors = _tensors(output)
        self.nbytes = sum(t.numel() * t.element_size() for t in self.tensors)
        self.versions = self._versions()

    def _versions(self) -> list:
        # Tensors of inference mode have no version and are not shared.
        return list(map(version_of, self.tensors))

    @property
    def untouched(self) -> bool:
        """Whether no tensor has been changed in place."""
        return self.versions == self._versions()

    def sharable(self, arguments) -> bool:
        """Whether the result may be reused by other networks."""
        tensors = _tensors(arguments) + self.tensors
        return None not in self.versions and not any(map(is_vmapped, tensors))


def _tensors(values) -> list[Tensor]:
    return [v for v in tree_leaves(values) if isinstance(v, Tensor)]


def _largest_without(module: nn.Module,
                     forking: set[nn.Module]) -> list[nn.Module]:
    # A ModuleList is not called itself.
    is_called = type(module).forward is not nn.Module.forward
    if is_called and not any(m in forking for m in module.modules()):
        return [module]
    found: list[nn.Module] = []
    for child in module.children():
        found += _largest_without(child, forking)
    return list(dict.fromkeys(found))
