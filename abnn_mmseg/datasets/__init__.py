"""Datasets and transforms that keep out-of-distribution labels."""
from abnn_mmseg.datasets.anomaly import AnomalySegDataset
from abnn_mmseg.datasets.bdd_anomaly import BDDAnomalyDataset
from abnn_mmseg.datasets.binary_anomaly import BinaryAnomalyDataset
from abnn_mmseg.datasets.camvid import CamVidAnomalyDataset
from abnn_mmseg.datasets.muad import MUADDataset
from abnn_mmseg.datasets.pasting import PasteUnknown
from abnn_mmseg.datasets.protocol import LabelProtocol
from abnn_mmseg.datasets.replay import ReplayableDataset, ReplayableSampler
from abnn_mmseg.datasets.streethazards import StreetHazardsDataset
from abnn_mmseg.datasets.transforms import (
    LoadAnomalyAnnotations,
    PackAnomalyInputs,
)

__all__ = [
    'AnomalySegDataset', 'BDDAnomalyDataset', 'BinaryAnomalyDataset',
    'CamVidAnomalyDataset', 'LabelProtocol', 'LoadAnomalyAnnotations',
    'MUADDataset', 'PackAnomalyInputs', 'PasteUnknown',
    'ReplayableDataset', 'ReplayableSampler', 'StreetHazardsDataset'
]
