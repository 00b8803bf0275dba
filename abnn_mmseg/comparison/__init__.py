"""Methods side by side: one table, one figure, one JSON."""
from abnn_mmseg.comparison.compare import compare
from abnn_mmseg.comparison.method import Method

__all__ = ['Method', 'compare']
