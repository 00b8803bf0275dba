"""Georeferenced rasters, read and written by windows."""
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from torch import Tensor

from abnn_mmseg.export.inputs import Frame
from abnn_mmseg.export.pipeline import Pipeline, every_nth, to_rgb
from abnn_mmseg.export.writers.tiles import TileWriter

SUFFIXES = {'.tif', '.tiff'}
# The class of pixels without data.
NO_CLASS = 255
# Megabytes of GDAL's cache for all files.
CACHE = 64


def has_rasterio() -> bool:
    """Whether rasterio, which reads rasters by windows, is installed."""
    with contextlib.suppress(ImportError):
        import rasterio  # noqa: F401
        return True
    return False


class Raster:
    """The network's input from a GeoTIFF, read by regions.

    rasterio reads a window, which is then loaded by the config's own loader,
    so that bands, their order and their type are those of training. What has
    no data, in one band or all, is 0 for the network.
    """

    def __init__(self, frame: Frame, pipeline: Pipeline) -> None:
        self._name, self.path = frame.name, Path(str(frame.image))
        self._pipeline = pipeline
        self._folder = tempfile.TemporaryDirectory(prefix='abnn-windows-')
        with self.opened() as file:
            self.shape = (file.count, file.height, file.width)
            self._has_mask = any(
                'all_valid' not in {flag.name for flag in flags}
                for flags in file.mask_flag_enums)

    @contextlib.contextmanager
    def opened(self) -> Iterator[Any]:
        """Open the file; explain errors of rasterio."""
        import rasterio
        try:
            with rasterio.Env(GDAL_CACHEMAX=CACHE), rasterio.open(
                    self.path) as file:
                yield file
        except rasterio.errors.RasterioError as error:
            raise ValueError(
                f'{self.path} cannot be read; it is truncated or no raster '
                f'that GDAL knows ({error.__cause__ or error}).') from error

    def picture(self) -> np.ndarray:
        """RGB, of about every n-th pixel."""
        side = self._pipeline.side
        with self.opened() as file:
            size = every_nth(np.broadcast_to(
                np.uint8(0), self.shape[1:]), side).shape
            bands = [3, 2, 1] if file.count >= 3 else [1]
            return to_rgb(file.read(
                bands, out_shape=(len(bands), *size)).transpose(1, 2, 0))

    def valid(self, rows: slice, columns: slice) -> np.ndarray:
        """Where a region has data, bool ``[H, W]``."""
        if not self._has_mask:
            return np.ones((rows.stop - rows.start,
                            columns.stop - columns.start), bool)
        with self.opened() as file:
            return file.dataset_mask(window=_window(rows, columns)) > 0

    def __getitem__(self, region: tuple) -> Tensor:
        _, rows, columns = region
        valid = self.valid(rows, columns)
        with self.opened() as file:
            pixels = np.nan_to_num(file.read(
                window=_window(rows, columns), masked=True).filled(0))
            pixels[:, ~valid] = 0
            path = self._write(file, pixels, rows, columns)
        try:
            return self._pipeline.load(Frame(self._name, path)).data['inputs']
        except ValueError as error:
            # Of the window, nobody knows the path.
            raise ValueError(
                str(error).replace(str(path), str(self.path))) from error
        finally:
            path.unlink()

    def _write(self, file, pixels: np.ndarray, rows: slice,
               columns: slice) -> Path:
        import rasterio
        path = Path(
            self._folder.name) / f'{rows.start}-{columns.start}.tif'
        count, height, width = pixels.shape
        names = [band.name for band in file.colorinterp[:3]]
        # Loaders of pictures use this.
        options = dict(photometric='RGB') if names == [
            'red', 'green', 'blue'] else {}
        # OpenCV would warn of the tags of a GeoTIFF at every window.
        with rasterio.Env(GDAL_PAM_ENABLED=False), rasterio.open(
                path, 'w', driver='GTiff', count=count, height=height,
                width=width, dtype=pixels.dtype, interleave='pixel',
                profile='BASELINE',
                transform=file.window_transform(_window(rows, columns)),
                **options) as window:
            window.write(pixels)
        return path


class GeoTiffTiles(TileWriter):
    """``geotiff/<map>/<name>.tif``, with the georeference of the input.

    Maps are float32. Where there is no data they are NaN, and the class map
    ``geotiff/prediction/<name>.tif`` is 255.
    """

    format, suffix = 'geotiff', '.tif'

    def __init__(self, settings):
        super().__init__(settings)
        if not has_rasterio():
            raise ImportError("The format 'geotiff' needs the package "
                              'rasterio: pip install rasterio.')

    def make_file(self, path, dtype, size, source):
        """A GeoTIFF with the georeference of the source."""
        return GeoTiffFile(path, dtype, size, source)


class GeoTiffFile:
    """A GeoTIFF of one band, whose regions are written in any order."""

    def __init__(self, path: Path, dtype: DTypeLike, size: tuple[int, int],
                 source: Any) -> None:
        self._path, self._size, self._source = path, size, source
        is_map = np.issubdtype(np.dtype(dtype), np.floating)
        self._dtype = 'float32' if is_map else np.dtype(dtype).name
        self._nodata = np.nan if is_map else NO_CLASS

    def __enter__(self) -> 'GeoTiffFile':
        import rasterio
        place = _place_of(self._source)
        with rasterio.Env(GDAL_CACHEMAX=CACHE):
            self._file = rasterio.open(
                self._path, 'w', driver='GTiff', count=1, tiled=True,
                height=self._size[0], width=self._size[1],
                dtype=self._dtype, nodata=self._nodata, blockxsize=256,
                blockysize=256, BIGTIFF='IF_SAFER', **place)
        return self

    def __exit__(self, *error) -> None:
        self._file.close()

    def put(self, rows: slice, columns: slice, values: np.ndarray) -> None:
        """Write a region."""
        self._file.write(values.astype(self._dtype), 1,
                         window=_window(rows, columns))


def _place_of(source: Any) -> dict:
    """The georeference of a raster; empty for other images."""
    if not isinstance(source, Raster):
        return {}
    with source.opened() as file:
        points, crs = file.gcps
        if points:
            return dict(gcps=points, crs=crs)
        return dict(crs=file.crs, transform=file.transform)


def _window(rows: slice, columns: slice) -> Any:
    from rasterio.windows import Window
    return Window.from_slices(rows, columns)
