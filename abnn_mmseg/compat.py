"""Every private interface of a dependency that is used, in one place.

Each has a test in tests/test_compat.py that names it when a new version of
the dependency breaks it.
"""
import copy
from typing import Any, Optional, TypeVar, cast

import numpy as np
import torch
from mmengine.runner import Runner
from torch import Tensor, nn
from torch._dynamo.exc import UserError as GraphError
from torch.nn.modules.batchnorm import _BatchNorm as AnyBatchNorm
from torch.nn.modules.dropout import _DropoutNd as AnyDropout
from torch.nn.modules.instancenorm import _InstanceNorm as AnyInstanceNorm
from torch.utils._pytree import tree_leaves, tree_map

__all__ = [
    'AnyBatchNorm', 'AnyDropout', 'AnyInstanceNorm', 'GraphError',
    'KeepsWeights', 'Normalization', 'forget_checkpoints', 'is_vmapped',
    'numpy_makers',
    'put_test_loop', 'tree_leaves', 'tree_map', 'version_of',
    'with_parameters'
]


M = TypeVar('M', bound=nn.Module)


def is_vmapped(tensor: Tensor) -> bool:
    """Whether ``torch.vmap`` is at work on this tensor."""
    return torch._C._functorch.is_batchedtensor(tensor)


def version_of(tensor: Tensor) -> Optional[int]:
    """How often a tensor was written to; None if nobody counts."""
    return None if tensor.is_inference() else tensor._version


def with_parameters(module: M, **parameters: Tensor) -> M:
    """A shallow copy of a module with other tensors as its parameters.

    Unlike ``torch.func.functional_call``, it leaves the module itself alone,
    so that other threads can use it.
    """
    module = copy.copy(module)
    merged: Any = dict(module._parameters)
    merged.update(parameters)
    module._parameters = merged
    return module


def numpy_makers() -> list:
    """What pickles of arrays and of numpy's scalars call to make them."""
    core = np._core if hasattr(np, '_core') else np.core
    return [core.multiarray._reconstruct, core.multiarray.scalar]


class KeepsWeights:
    """A mixin for runners of a model that has its weights already."""

    def _init_model_weights(self) -> None:
        """Initializing would throw the weights away."""


def put_test_loop(runner: Runner, loop: Any) -> None:
    """Let a runner that was built without one test with this loop."""
    runner._test_loop = loop


def forget_checkpoints(runner: Runner) -> None:
    """Let a runner neither load nor resume a checkpoint."""
    runner._load_from, runner._resume = None, False


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
