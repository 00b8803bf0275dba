"""Compare methods on the same images: a table, a figure, a JSON file."""
from abnn_mmseg.comparison.compare import compare
from abnn_mmseg.comparison.method import Method

__all__ = ['Method', 'compare']
