"""Methods side by side: one table, one figure, one JSON."""
from .compare import compare
from .method import Method

__all__ = ['Method', 'compare']
