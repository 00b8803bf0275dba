"""All output formats by name."""
from collections.abc import Sequence
from pathlib import Path
from typing import Union

from abnn_mmseg.export import writers
from abnn_mmseg.export.gallery import GalleryWriter
from abnn_mmseg.export.rasters import GeoTiffTiles
from abnn_mmseg.utils.choices import one_of

FORMATS = {
    'npy': writers.NpyWriter,
    'npz': writers.NpzWriter,
    'png16': writers.Png16Writer,
    'tiff': writers.TiffWriter,
    'geotiff': GeoTiffTiles,
    'nifti': writers.NiftiWriter,
    'hdf5': writers.Hdf5Writer,
    'heatmap': writers.HeatmapWriter,
    'overlay': writers.OverlayWriter,
    'mask': writers.MaskWriter,
    'prediction': writers.PredictionWriter,
    'pseudo-labels': writers.PseudoLabelWriter,
    'regions': writers.RegionsWriter,
    'label-set': writers.LabelSetWriter,
    'set-size': writers.SetSizeWriter,
    'alarm': writers.AlarmWriter,
    'video': writers.VideoWriter,
    'csv': writers.CsvWriter,
    'gallery': GalleryWriter,
}
# Formats for large images only.
TILED = ('geotiff', )


def build_writers(formats: Sequence[str], folder: Union[str, Path],
                  scores: Sequence[str], tiles: bool = False,
                  **settings) -> list[writers.Writer]:
    """Make the writers of formats.

    Args:
        formats: Names among ``FORMATS``.
        folder: Output folder; each format has its own folder in it.
        scores: Names of the maps to write.
        tiles: Whether images are predicted tile by tile.
        settings: Fields of :class:`WriterSettings`.
    """
    for name in formats:
        one_of('format', name, FORMATS)
        if name in TILED and not tiles:
            raise ValueError(f'The format {name!r} is written window by '
                             'window: add --tile 1024.')
    shared = writers.WriterSettings(folder, scores, **settings)
    kinds = dict(FORMATS, npy=writers.NpyTiles) if tiles else FORMATS
    return [kinds[name](shared) for name in dict.fromkeys(formats)]
