"""Peak memory of this process, and what is free."""
import os
import resource
from pathlib import Path

import torch


def peak_resident_mb() -> float:
    """The high-water mark of resident memory, in MiB.

    Linux hands ``ru_maxrss`` of the parent down through fork and exec, so a
    child would report its parent's; ``VmHWM`` is its own.
    """
    status = Path('/proc/self/status')
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith('VmHWM:'):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def free_mb(device: str) -> float:
    """Free memory of a device, in MiB."""
    if torch.device(device).type == 'cuda':
        return torch.cuda.mem_get_info(device)[0] / 2**20
    pages = os.sysconf('SC_AVPHYS_PAGES')
    return pages * os.sysconf('SC_PAGE_SIZE') / 2**20
