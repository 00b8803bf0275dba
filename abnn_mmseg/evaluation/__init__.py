"""Metrics of uncertainty: anomalies, calibration, selection, guarantees."""
from abnn_mmseg.evaluation.anomaly import AnomalyMetric
from abnn_mmseg.evaluation.calibration import CalibrationMetric
from abnn_mmseg.evaluation.curves import DetectionCurve, RiskCoverage
from abnn_mmseg.evaluation.histograms import ScoreHistogram
from abnn_mmseg.evaluation.image_statistics import ImageStatisticsMetric
from abnn_mmseg.evaluation.regions import RegionMetric
from abnn_mmseg.evaluation.selective import SelectiveMetric
from abnn_mmseg.evaluation.sets import GuaranteeMetric, RiskCalibration

__all__ = [
    'AnomalyMetric', 'CalibrationMetric', 'DetectionCurve', 'GuaranteeMetric',
    'ImageStatisticsMetric', 'RegionMetric', 'RiskCalibration',
    'RiskCoverage', 'ScoreHistogram', 'SelectiveMetric'
]
