"""Metrics of uncertainty: anomaly detection, calibration, selection."""
from .anomaly import AnomalyMetric
from .calibration import CalibrationMetric
from .curves import DetectionCurve, RiskCoverage
from .histograms import ScoreHistogram
from .selective import SelectiveMetric

__all__ = [
    'AnomalyMetric', 'CalibrationMetric', 'DetectionCurve', 'RiskCoverage',
    'ScoreHistogram', 'SelectiveMetric'
]
