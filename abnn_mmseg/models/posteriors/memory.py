"""Networks that fit into one pass; the message when memory is full."""
from contextlib import contextmanager

import torch
from torch import Tensor

# Memory of the activations of a dilated ResNet-50, per pixel of the image.
BYTES_PER_PIXEL = 4096
MOST_DRAWS = 16
# With more pixels in a pass, activations exceed a CPU's caches, and networks
# are faster one by one; with fewer, the calls themselves take the time.
CPU_PIXELS = 2**17


def draws_that_fit(inputs: Tensor) -> int:
    """Networks per pass from the device's free memory and the input size."""
    pixels = inputs.shape[0] * inputs.shape[-2] * inputs.shape[-1]
    if inputs.device.type == 'cuda':
        free = torch.cuda.mem_get_info(inputs.device)[0]
        fit = free // 2 // (pixels * BYTES_PER_PIXEL)
    else:
        fit = CPU_PIXELS // pixels
    return int(max(1, min(MOST_DRAWS, fit)))


def is_out_of_memory(error: Exception) -> bool:
    """Whether an allocation failed, on any device."""
    return 'out of memory' in str(error) or "can't allocate" in str(error)


@contextmanager
def memory_hint():
    """Say in an out-of-memory error which settings to change."""
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise RuntimeError(
            'out of memory; write a smaller draws_per_pass in the posterior '
            '(1 needs least), or test with sliding windows, test_cfg='
            "dict(mode='slide', ...).") from error
