"""Writers of files, one module for each kind of file."""
from abnn_mmseg.export.writers.arrays import (
    Hdf5Writer,
    NpyWriter,
    NpzWriter,
    Png16Writer,
    TiffWriter,
)
from abnn_mmseg.export.writers.base import MapWriter, Writer
from abnn_mmseg.export.writers.guaranteed import (
    AlarmWriter,
    LabelSetWriter,
    SetSizeWriter,
)
from abnn_mmseg.export.writers.pictures import (
    HeatmapWriter,
    MaskWriter,
    OverlayWriter,
    PredictionWriter,
)
from abnn_mmseg.export.writers.pseudo_labels import PseudoLabelWriter
from abnn_mmseg.export.writers.ranking import CsvWriter
from abnn_mmseg.export.writers.regions import RegionsWriter
from abnn_mmseg.export.writers.settings import WriterSettings, natural_range
from abnn_mmseg.export.writers.threaded import ThreadedWriter
from abnn_mmseg.export.writers.tiles import NpyTiles
from abnn_mmseg.export.writers.video import VideoWriter
from abnn_mmseg.export.writers.volumes import NiftiWriter

__all__ = [
    'AlarmWriter', 'CsvWriter', 'Hdf5Writer', 'HeatmapWriter',
    'LabelSetWriter', 'MapWriter', 'MaskWriter', 'NiftiWriter', 'NpyTiles',
    'NpyWriter', 'NpzWriter', 'OverlayWriter', 'Png16Writer',
    'PredictionWriter', 'PseudoLabelWriter', 'RegionsWriter',
    'SetSizeWriter', 'ThreadedWriter', 'TiffWriter', 'VideoWriter', 'Writer',
    'WriterSettings', 'natural_range'
]
