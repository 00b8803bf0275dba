"""How many networks fit into one pass; the message when memory runs out."""
from contextlib import contextmanager

import torch
from torch import Tensor

# Activations alive at once in a dilated ResNet-50, per pixel of the input.
BYTES_PER_PIXEL = 4096
MOST_DRAWS = 16
# Beyond about this many pixels in a pass, activations leave a CPU's caches
# and one network after the other is faster; below, calls cost more than work.
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
    """Add what to change to the error of a prediction without memory."""
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise RuntimeError(
            'out of memory; write a smaller draws_per_pass in the posterior '
            '(1 needs least), or test with sliding windows, test_cfg='
            "dict(mode='slide', ...).") from error
