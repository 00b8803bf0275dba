"""The private interfaces of dependencies that the package uses.

Each has a test in tests/test_compat.py that names it when a new version of
the dependency breaks it.
"""
import copy
import importlib.metadata
from typing import Any, Callable, Optional, TypeVar, cast

import numpy as np
import torch
from mmengine.config import Config
from mmengine.config.utils import MODULE2PACKAGE
from mmengine.runner import BaseLoop, Runner
from torch import Tensor, nn
from torch._dynamo.exc import UserError as GraphError
from torch.nn.modules.batchnorm import _BatchNorm as AnyBatchNorm
from torch.nn.modules.dropout import _DropoutNd as AnyDropout
from torch.nn.modules.instancenorm import _InstanceNorm as AnyInstanceNorm
from torch.utils._pytree import tree_leaves, tree_map

__all__ = [
    'AnyBatchNorm', 'AnyDropout', 'AnyInstanceNorm', 'BareLoop',
    'BatchNormOfAnyRank', 'GraphError', 'KeepsWeights', 'Normalization',
    'PreparesState', 'find_bases_with', 'forget_checkpoints', 'identity_of',
    'is_vmapped', 'loaded_from', 'numpy_makers', 'put_test_loop',
    'tree_leaves', 'tree_map', 'version_of', 'with_parameters'
]


M = TypeVar('M', bound=nn.Module)


def identity_of(module: nn.Module) -> int:
    """A number of a module that its stand-ins in ``torch.export`` share.

    If a model holds a module under two names, such as a dropout that is used
    twice, the export replaces all modules by stand-ins: other objects that
    share the attributes of the module.
    """
    return id(vars(module))


def is_vmapped(tensor: Tensor) -> bool:
    """Whether a tensor is one of a batch inside ``torch.vmap``."""
    return torch._C._functorch.is_batchedtensor(tensor)


def version_of(tensor: Tensor) -> Optional[int]:
    """How often a tensor was changed in place; None in inference mode."""
    return None if tensor.is_inference() else tensor._version


def with_parameters(module: M, **parameters: Tensor) -> M:
    """A shallow copy of a module with other tensors as its parameters.

    Unlike ``torch.func.functional_call``, it does not change the module, so
    other threads can use it.
    """
    module = copy.copy(module)
    merged: Any = dict(module._parameters)
    merged.update(parameters)
    module._parameters = merged
    return module


def numpy_makers() -> list:
    """The functions that pickles of numpy arrays and scalars call."""
    core = np._core if hasattr(np, '_core') else np.core
    return [core.multiarray._reconstruct, core.multiarray.scalar]


class BatchNormOfAnyRank(AnyBatchNorm):
    """Batch norm for inputs of any rank, such as those of SyncBatchNorm."""

    def _check_input_dim(self, input) -> None:
        """Accept any number of dimensions."""


class KeepsWeights:
    """A mixin for runners of a model that has its weights already."""

    def _init_model_weights(self) -> None:
        """Do nothing: initializing would replace the weights."""


# mmengine's modules are untyped. With a typed base, a type checker would take
# their attributes for tensors or modules.
UntypedModule: Any = nn.Module


class PreparesState(UntypedModule):
    """A mixin for modules that change a state dict before it is loaded.

    mmengine loads weights without a call of ``load_state_dict``.
    """

    def prepare_state(self, state_dict: dict, prefix: str) -> None:
        """Change a state dict whose entries for this module have a prefix."""
        raise NotImplementedError

    def _load_from_state_dict(self, state_dict, prefix, *args) -> None:
        self.prepare_state(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *args)


class BareLoop(BaseLoop):
    """A loop that does not build its dataloader."""

    def __init__(self, runner: Runner, dataloader: Any) -> None:
        self._runner = runner
        self.dataloader = dataloader


def find_bases_with(find: Callable[[str], Optional[str]]) -> None:
    """Let ``_base_`` in configs name files that a function finds.

    An entry in mmengine's table of packages does not work: it requires a
    folder in the name and a package that is not editable, and it would use
    the registries of the package, which has none.

    Args:
        find (Callable): Returns the path for a name, or None for names that
            mmengine should find.
    """
    try:
        importlib.metadata.distribution(MODULE2PACKAGE['mmseg'])
    except importlib.metadata.PackageNotFoundError:
        # mmengine looks for a distribution; that of the fork is named so.
        MODULE2PACKAGE['mmseg'] = 'onedl-mmsegmentation'
    original = Config._get_cfg_path

    def get_cfg_path(cfg_path: str,
                     filename: str) -> tuple[str, Optional[str]]:
        """Find our own configs; leave others to mmengine."""
        path = find(cfg_path)
        return original(cfg_path, filename) if path is None else (path, None)

    Config._get_cfg_path = staticmethod(get_cfg_path)


def put_test_loop(runner: Runner, loop: Any) -> None:
    """Set the test loop of a runner."""
    runner._test_loop = loop


def forget_checkpoints(runner: Runner) -> None:
    """Let a runner neither load nor resume a checkpoint."""
    runner._load_from, runner._resume = None, False


def loaded_from(runner: Runner) -> Optional[str]:
    """The checkpoint that a runner loads or resumes."""
    return runner._load_from


class Normalization:
    """What a ``SegDataPreProcessor`` does to the values of an image.

    Attributes:
        reverse (bool): Whether the channels change their order.
        mean (Tensor, optional): Subtracted; None if nothing is.
        std (Tensor, optional): Divided by.
    """

    def __init__(self, preprocessor: nn.Module) -> None:
        # mmsegmentation 1.2 has the attribute without the underscore.
        self.reverse: bool = any(
            getattr(preprocessor, name, False)
            for name in ('channel_conversion', '_channel_conversion'))
        self.mean: Optional[Tensor] = None
        self.std: Optional[Tensor] = None
        if getattr(preprocessor, '_enable_normalize', False):
            self.mean = cast(Tensor, preprocessor.mean)
            self.std = cast(Tensor, preprocessor.std)
