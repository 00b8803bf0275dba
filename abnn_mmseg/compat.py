"""Every use of a private interface of a dependency, in one place.

Each has a test in tests/test_compat.py that names it when a new version of
the dependency breaks it.
"""
import torch
from torch import Tensor


def is_vmapped(tensor: Tensor) -> bool:
    """Whether ``torch.vmap`` is at work on this tensor."""
    return torch._C._functorch.is_batchedtensor(tensor)
