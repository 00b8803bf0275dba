"""Peak memory of this process."""
import resource
from pathlib import Path


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
