"""Uncertainty as pure functions of tensors."""
from .scores import DEFAULT_SCORES, SCORES, check_scores, score_range
from .statistics import StreamingStatistics
from .temperature import fit_temperature, temper

__all__ = [
    'DEFAULT_SCORES', 'SCORES', 'StreamingStatistics', 'check_scores',
    'fit_temperature', 'score_range', 'temper'
]
