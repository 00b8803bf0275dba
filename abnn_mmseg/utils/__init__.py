"""Small helpers that know nothing of segmentation."""
from .files import append_line, atomic_path, atomic_write, sweep

__all__ = ['append_line', 'atomic_path', 'atomic_write', 'sweep']
