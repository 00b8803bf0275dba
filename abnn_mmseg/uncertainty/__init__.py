"""Uncertainty as pure functions of tensors."""
from abnn_mmseg.uncertainty.scores import (
    DEFAULT_SCORES,
    SCORES,
    SMALL_SCORES,
    check_scores,
    map_name,
    score_of,
    score_range,
)
from abnn_mmseg.uncertainty.statistics import StreamingStatistics
from abnn_mmseg.uncertainty.temperature import fit_temperature, temper

__all__ = [
    'DEFAULT_SCORES', 'SCORES', 'SMALL_SCORES', 'StreamingStatistics',
    'check_scores', 'fit_temperature', 'map_name', 'score_of', 'score_range',
    'temper'
]
