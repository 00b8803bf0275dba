"""Adaptive average pooling that a graph can hold for every image size."""
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.export import ExportedProgram


def with_pooling_for_all_sizes(program: ExportedProgram) -> ExportedProgram:
    """Replace adaptive average pooling of a program by matrix products.

    PyTorch's own translation to simpler operators branches on the remainder
    of ``size / bins`` of the example image, and the graph keeps that branch
    for images of all sizes.
    """
    return program.run_decompositions({
        torch.ops.aten.adaptive_avg_pool2d.default: adaptive_mean})


def adaptive_mean(values: Tensor, bins: Sequence[int]) -> Tensor:
    """Mean over the bins of the last two axes.

    Bin i of n covers the indices from ``floor(i * size / n)`` up to, without,
    ``ceil((i + 1) * size / n)``.

    Args:
        values (Tensor): ``[..., H, W]``.
        bins (Sequence[int]): Number of bins along height and width.
    """
    rows, columns = (
        _weights(size, n, values)
        for size, n in zip(values.shape[-2:], bins))
    return rows @ values @ columns.T


def _weights(size: int, bins: int, like: Tensor) -> Tensor:
    """How much each index counts in each bin, ``[bins, size]``."""
    index = torch.arange(size, device=like.device)
    number = torch.arange(bins, device=like.device)[:, None]
    start = number * size // bins
    end = ((number + 1) * size + bins - 1) // bins
    inside = ((index >= start) & (index < end)).to(like.dtype)
    return inside / inside.sum(1, keepdim=True)
