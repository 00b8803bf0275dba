"""Files made of results, one module a kind of file."""
from .arrays import Hdf5Writer, NpyWriter, NpzWriter, Png16Writer, TiffWriter
from .base import MapWriter, Writer
from .pictures import (
    HeatmapWriter,
    MaskWriter,
    OverlayWriter,
    PredictionWriter,
)
from .ranking import CsvWriter
from .settings import WriterSettings, natural_range
from .threaded import ThreadedWriter

__all__ = [
    'CsvWriter', 'HeatmapWriter', 'Hdf5Writer', 'MapWriter', 'MaskWriter',
    'NpyWriter', 'NpzWriter', 'OverlayWriter', 'Png16Writer',
    'PredictionWriter', 'ThreadedWriter', 'TiffWriter', 'Writer',
    'WriterSettings', 'natural_range'
]
