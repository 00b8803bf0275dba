"""Datasets and transforms that keep out-of-distribution labels."""
from .anomaly import AnomalySegDataset
from .bdd_anomaly import BDDAnomalyDataset
from .binary_anomaly import BinaryAnomalyDataset
from .camvid import CamVidAnomalyDataset
from .muad import MUADDataset
from .protocol import LabelProtocol
from .replay import ReplayableDataset, ReplayableSampler
from .streethazards import StreetHazardsDataset
from .transforms import LoadAnomalyAnnotations, PackAnomalyInputs

__all__ = [
    'AnomalySegDataset', 'BDDAnomalyDataset', 'BinaryAnomalyDataset',
    'CamVidAnomalyDataset', 'LabelProtocol', 'LoadAnomalyAnnotations',
    'MUADDataset', 'PackAnomalyInputs', 'ReplayableDataset',
    'ReplayableSampler', 'StreetHazardsDataset'
]
