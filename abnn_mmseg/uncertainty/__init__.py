"""Uncertainty as pure functions of tensors."""
from .scores import DEFAULT_SCORES, SCORES, check_scores, score_range
from .statistics import StreamingStatistics

__all__ = [
    'DEFAULT_SCORES', 'SCORES', 'StreamingStatistics', 'check_scores',
    'score_range'
]
