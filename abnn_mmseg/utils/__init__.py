"""Small helpers that know nothing of segmentation."""
from abnn_mmseg.utils.files import (
    append_line,
    atomic_path,
    atomic_write,
    sweep,
)

__all__ = ['append_line', 'atomic_path', 'atomic_write', 'sweep']
