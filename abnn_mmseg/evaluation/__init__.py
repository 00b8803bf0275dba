"""Metrics of uncertainty: anomaly detection, calibration, selection."""
from abnn_mmseg.evaluation.anomaly import AnomalyMetric
from abnn_mmseg.evaluation.calibration import CalibrationMetric
from abnn_mmseg.evaluation.curves import DetectionCurve, RiskCoverage
from abnn_mmseg.evaluation.histograms import ScoreHistogram
from abnn_mmseg.evaluation.image_statistics import ImageStatisticsMetric
from abnn_mmseg.evaluation.regions import RegionMetric
from abnn_mmseg.evaluation.selective import SelectiveMetric

__all__ = [
    'AnomalyMetric', 'CalibrationMetric', 'DetectionCurve',
    'ImageStatisticsMetric', 'RegionMetric', 'RiskCoverage',
    'ScoreHistogram', 'SelectiveMetric'
]
