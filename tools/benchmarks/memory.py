"""Peak memory of this process, and what is free."""
import multiprocessing
import os
import resource
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Optional

import torch


def peak_resident_mb() -> float:
    """The high-water mark of resident memory, in MiB.

    Linux hands ``ru_maxrss`` of the parent down through fork and exec, so a
    child would report its parent's; ``VmHWM`` is its own.
    """
    peak = _linux_mb('/proc/self/status', 'VmHWM:')
    if peak is None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return peak


def reset_peak() -> None:
    """Forget the high-water mark so far, where the system can."""
    with suppress(OSError):
        Path('/proc/self/clear_refs').write_text('5')


def free_mb(device: str = 'cpu') -> float:
    """Free memory of a device, in MiB."""
    if torch.device(device).type == 'cuda':
        return torch.cuda.mem_get_info(device)[0] / 2**20
    # What caches hold is free when it is needed.
    free = _linux_mb('/proc/meminfo', 'MemAvailable:')
    if free is None:
        pages = os.sysconf('SC_AVPHYS_PAGES')
        free = pages * os.sysconf('SC_PAGE_SIZE') / 2**20
    return free


def _linux_mb(path: str, key: str) -> Optional[float]:
    """A line of the kernel's, None on another system."""
    if not Path(path).is_file():
        return None
    for line in Path(path).read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    return None


def in_process(function: Callable, *arguments: Any) -> Any:
    """Return the result of a function that runs in its own process.

    So its peak memory is its own, and nothing it leaves behind stays.
    """
    context = multiprocessing.get_context('spawn')
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(function, *arguments).result()
