"""Predict images larger than memory, tile by tile.

A tile is predicted from all sliding windows that overlap it, so every pixel
has the mean over the same windows as in ordinary slide inference. Windows
across the border of two tiles are computed for both: with windows of size c
and tiles of size t the work is about ``(1 + c / t) ** 2`` times as much.
"""
import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Callable, Optional, Union

import numpy as np
from mmseg.structures import SegDataSample
from torch import Tensor

from abnn_mmseg.export.inferencer import ABNNInferencer
from abnn_mmseg.export.inputs import Frame
from abnn_mmseg.export.pipeline import (
    Loaded,
    Pipeline,
    every_nth,
    open_npy,
    to_rgb,
)
from abnn_mmseg.export.preview import PREDICTION, Preview, more_planes
from abnn_mmseg.export.rasters import (
    NO_CLASS,
    SUFFIXES,
    Raster,
    has_rasterio,
)
from abnn_mmseg.export.result import MapResult
from abnn_mmseg.export.tile_grid import Tile, make_tiles
from abnn_mmseg.export.writers import Writer
from abnn_mmseg.export.writers.tiles import Planes, TileWriter
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.models.windows import slides

PREVIEW_SIDE = 2048


class TiledInferencer(ABNNInferencer):
    """An inferencer that predicts one tile of an image after the other.

    Memory depends on the size of a tile, not on that of the image or on the
    number of draws. Only compressed images are decoded as a whole; a ``.npy``
    of ``[H, W, C]`` is not. ``Resize`` of the test pipeline is left out.
    Results hold every n-th pixel, at most 2048 per side.

    Args:
        inferencer (ABNNInferencer): Its config must test with windows. It is
            not changed.
        tile (int): Height and width of a tile.
    """

    def __init__(self, inferencer: ABNNInferencer, tile: int) -> None:
        _check(inferencer.model, tile)
        vars(self).update(vars(inferencer))
        self.model = _one_network_a_pass(inferencer.model)
        self.pipeline = Pipeline(inferencer.pipeline.steps,
                                 inferencer.pipeline.channels, PREVIEW_SIDE)
        self.tile = tile
        self.files: list[TileWriter] = []
        self.show: Callable[[float], None] = lambda share: None
        self.check: Callable[[], None] = lambda: None

    def write_to(self, writers: Sequence[Writer],
                 show: Callable[[float], None],
                 check: Callable[[], None]) -> None:
        """Let writers write maps at full size, tile by tile.

        Args:
            writers (Sequence[Writer]): Each :class:`TileWriter` gets the
                tiles.
            show (Callable): Called with the finished share of an image.
            check (Callable): Called before the files of an image get their
                names; raises if another run has taken the folder.
        """
        self.files = [w for w in writers if isinstance(w, TileWriter)]
        self.show = show
        self.check = check

    def load(self, frame: Frame) -> Loaded:
        """Load an image without resizing.

        A ``.npy``, and with rasterio a TIFF, is read by tiles later.
        """
        if not isinstance(frame.image, (str, Path)):
            return super().load(frame)
        suffix = Path(frame.image).suffix.lower()
        pixels: Union[_Mapped, Raster]
        if suffix == '.npy':
            pixels = _Mapped(frame, self.pipeline)
        elif suffix in SUFFIXES and has_rasterio():
            pixels = Raster(frame, self.pipeline)
        else:
            return super().load(frame)
        return Loaded(frame.name, dict(inputs=pixels), pixels.picture())

    def results(self,
                jobs: Iterable[Callable[[], Loaded]],
                batch_size: int = 1,
                probability: bool = False,
                ahead: Optional[int] = None) -> Iterator[MapResult]:
        """Results of images, one at a time; ``batch_size`` counts tiles."""
        for job in jobs:
            yield self._result(job(), batch_size, probability)

    def _result(self, loaded: Loaded, batch_size: int,
                probability: bool) -> MapResult:
        """Write the maps of an image; return every n-th pixel of them."""
        size = _size_of(loaded)
        test_cfg = self.model.test_cfg
        tiles = make_tiles(size, self.tile, test_cfg.crop_size,
                           test_cfg.stride)
        parts = super().results(
            (partial(_part, loaded, tile) for tile in tiles), batch_size,
            probability)
        preview = Preview(size, PREVIEW_SIDE)
        source = loaded.data['inputs']
        with self._open_files(loaded.name, size, source) as files:
            for number, (tile, part) in enumerate(zip(tiles, parts), 1):
                planes = {**part.maps, PREDICTION: part.prediction}
                if isinstance(source, Raster):
                    _forget_invalid(
                        planes, source.valid(tile.rows, tile.columns))
                for name, file in files:
                    file.put(tile.rows, tile.columns, planes[name])
                preview.put(tile, {**planes, **more_planes(part)})
                self.show(number / len(tiles))
            self.check()
        result = preview.result(loaded)
        result.thresholds = self.thresholds
        result.missing = self.missing
        return result

    @contextmanager
    def _open_files(self, name: str, size: tuple,
                    source: Any) -> Iterator[list[tuple[str, Any]]]:
        """All files of an image, each with the name of its plane."""
        found: list[tuple[str, Any]] = []
        with ExitStack() as stack:
            for writer in self.files:
                dtypes: Planes = dict.fromkeys(
                    self.scores, writer.settings.dtype)
                dtypes[PREDICTION] = np.min_scalar_type(
                    self.model.num_classes)
                found += writer.open(
                    stack, name, size, dtypes, source).items()
            yield found


def _forget_invalid(planes: dict[str, np.ndarray],
                    valid: np.ndarray) -> None:
    """Remove predictions where a raster has no data."""
    if valid.all():
        return
    for name, values in planes.items():
        planes[name] = np.where(
            valid, values, NO_CLASS if name == PREDICTION else np.nan)


class _Mapped:
    """The network's input from a ``.npy``, read region by region."""

    def __init__(self, frame: Frame, pipeline: Pipeline) -> None:
        self._name, self._path = frame.name, Path(str(frame.image))
        self._pipeline = pipeline
        pixels = open_npy(self._path)
        pipeline.check_channels(frame.name, pixels.shape, pixels.dtype)
        self.shape = (pixels.shape[2], *pixels.shape[:2])

    def picture(self) -> np.ndarray:
        """RGB of every n-th pixel."""
        return to_rgb(np.array(
            every_nth(open_npy(self._path), self._pipeline.side)))

    def __getitem__(self, region: tuple) -> Tensor:
        # Opened each time and copied: mapped pages would count as memory.
        pixels = np.array(open_npy(self._path)[region[1:]])
        loaded = self._pipeline.load_array(self._name, pixels)
        _size_of(loaded)
        return loaded.data['inputs']


def _size_of(loaded: Loaded) -> tuple[int, int]:
    """Height and width; raise if the pipeline has changed them."""
    size = tuple(loaded.data['inputs'].shape[1:])
    sample = loaded.data.get('data_samples')
    if sample is not None and tuple(sample.ori_shape[:2]) != size:
        raise ValueError(
            f'the test pipeline turns {loaded.name!r} of '
            f'{list(sample.ori_shape[:2])} into {list(size)}, but tiles need '
            'images of their own size; remove the step that does (other than '
            'Resize, which is left out) from the pipeline.')
    return size


def _part(loaded: Loaded, tile: Tile) -> Loaded:
    """A tile with its windows; pixels outside it are marked as padding."""
    seen = loaded.data['inputs'][:, tile.seen_rows, tile.seen_columns]
    shape = tuple(seen.shape[1:])
    sample = SegDataSample(metainfo=dict(
        img_path=loaded.name,
        ori_shape=_shape(tile.rows, tile.columns),
        img_shape=shape,
        pad_shape=shape,
        padding_size=(
            tile.columns.start - tile.seen_columns.start,
            tile.seen_columns.stop - tile.columns.stop,
            tile.rows.start - tile.seen_rows.start,
            tile.seen_rows.stop - tile.rows.stop)))
    return Loaded(loaded.name, dict(inputs=seen, data_samples=sample), None)


def _shape(rows: slice, columns: slice) -> tuple[int, int]:
    return rows.stop - rows.start, columns.stop - columns.start


def _check(model: BayesianSegmentor, tile: int) -> None:
    """Raise ValueError if images cannot be predicted by tiles."""
    if tile < 1:
        raise ValueError(f'tile={tile} must be at least 1 pixel.')
    if not slides(model.test_cfg):
        raise ValueError(
            "large images are predicted window by window; write test_cfg="
            "dict(mode='slide', crop_size=(768, 768), stride=(512, 512)) in "
            'the model of the config.')
    if getattr(model.data_preprocessor, 'test_cfg', None):
        raise ValueError('data_preprocessor.test_cfg pads images, which '
                         'tiles do not need; remove it.')


def _one_network_a_pass(model: BayesianSegmentor) -> BayesianSegmentor:
    """A copy of the model that runs one network in a pass.

    It saves memory, because logits of a whole tile are kept for each network
    of a pass. The copy shares all modules; the model is not changed. A number
    that the user has set is kept.
    """
    if model.posterior.draws_per_pass is not None:
        return model
    model = copy.copy(model)
    model.posterior = copy.copy(model.posterior)
    model.posterior.draws_per_pass = 1
    return model
