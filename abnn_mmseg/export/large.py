"""Images larger than memory: predict tile by tile, write maps in place.

A tile is predicted from all sliding windows that touch it, so every pixel
gets the mean of the windows that ordinary slide inference gives it. Windows
across the border of two tiles are computed for both: with windows of size c
and tiles of size t that costs about ``(1 + c / t) ** 2`` times the work.
"""
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Union

import numpy as np
import torch
from mmengine.dist import all_reduce, get_dist_info
from mmseg.structures import SegDataSample
from numpy.typing import DTypeLike

from abnn_mmseg.export.export import Export
from abnn_mmseg.export.formats import build_writers
from abnn_mmseg.export.inferencer import ABNNInferencer, to_rgb
from abnn_mmseg.export.inputs import Frame, Frames, read_bgr
from abnn_mmseg.export.result import MapResult
from abnn_mmseg.export.writers import NpyWriter, WriterSettings
from abnn_mmseg.models.windows import window_slices
from abnn_mmseg.utils.console import progress
from abnn_mmseg.utils.files import atomic_path, sweep

PREDICTION = 'prediction'
PREVIEW_SIDE = 2048


class Tile(NamedTuple):
    """Rows and columns of a tile, and of all windows that touch it."""
    rows: slice
    columns: slice
    seen_rows: slice
    seen_columns: slice


def export_large(inferencer: ABNNInferencer,
                 source: Union[str, Path],
                 folder: Union[str, Path],
                 formats: Sequence[str] = ('npy', ),
                 tile: int = 1024,
                 **settings) -> Export:
    """Write ``npy/<map>/<name>.npy`` and ``npy/prediction/<name>.npy``.

    Memory is that of a tile, whatever the size of the image and the number
    of draws; only a compressed image is decoded as a whole, at three bytes a
    pixel (a ``.npy`` of uint8 ``[H, W, 3]``, BGR, is not). Images keep their
    size: no ``Resize`` of the test pipeline is applied.

    Args:
        inferencer (ABNNInferencer): Its config must test with windows.
        source (str): Image, folder or glob.
        folder (str): Output folder.
        formats (Sequence[str]): Other formats than ``'npy'``, such as the
            gallery, get every n-th pixel, at most 2048 a side.
        tile (int): Height and width of a tile. Defaults to 1024.
        settings: Fields of :class:`WriterSettings`, such as ``dtype``.
            Without ``threshold``, those that are stored with the members are
            applied.
    """
    if settings.get('threshold') is None:
        settings['threshold'] = inferencer.thresholds
    rank, world = get_dist_info()
    _prepare(inferencer.model, tile)
    maps = NpyWriter(WriterSettings(
        folder, [*inferencer.scores, PREDICTION], **settings))
    previews = build_writers(
        [name for name in formats if name != 'npy'], folder,
        inferencer.scores, classes=inferencer.classes,
        palette=inferencer.palette, rank=rank, **settings)
    if settings.get('resume') or settings.get('overwrite'):
        sweep(folder)
    done = torch.zeros(2, dtype=torch.int64)
    for frame in list(_frames(source))[rank::world]:
        if maps.settings.resume and all(
                writer.complete(frame.name) for writer in [maps, *previews]):
            done[1] += 1
            continue
        maps.refuse_existing(frame.name)
        preview = _export_one(inferencer, frame, maps, tile)
        for writer in previews:
            writer.write(preview)
        done[0] += 1
    # The first process joins what all have written when it closes.
    all_reduce(done)
    for writer in previews:
        writer.close()
    return Export(*done.tolist())


def _frames(source: Union[str, Path]) -> Iterator[Frame]:
    path = Path(source)
    if path.suffix == '.npy' and path.is_file():
        return iter([Frame(path.stem, path)])
    return iter(Frames(source))


class _Image:
    """The pixels of a file, a region at a time."""

    def __init__(self, frame: Frame) -> None:
        path = Path(str(frame.image))
        self._source: Union[Path, np.ndarray] = (
            path if path.suffix == '.npy' else read_bgr(frame))
        pixels = self._open()
        self.size = pixels.shape[:2]
        if pixels.shape[2:] != (3, ) or pixels.dtype != np.uint8:
            raise ValueError(
                f'{frame.image} holds {pixels.dtype} {list(pixels.shape)}; '
                'it must be uint8 [H, W, 3] in BGR order.')

    def _open(self) -> np.ndarray:
        if isinstance(self._source, np.ndarray):
            return self._source
        return np.load(self._source, mmap_mode='r')

    def region(self, rows: slice, columns: slice) -> np.ndarray:
        """A copy, so that the file need not stay mapped."""
        return np.array(self._open()[rows, columns])


def _export_one(inferencer: ABNNInferencer, frame: Frame, maps: NpyWriter,
                side: int) -> MapResult:
    """Write the maps of an image; return every n-th pixel of them."""
    image = _Image(frame)
    test_cfg = inferencer.model.test_cfg
    tiles = make_tiles(image.size, side, test_cfg.crop_size, test_cfg.stride)
    dtypes: dict[str, DTypeLike] = {
        score: maps.settings.dtype for score in inferencer.scores
    }
    dtypes[PREDICTION] = np.min_scalar_type(inferencer.model.num_classes)
    preview = _Preview(image.size)
    with ExitStack() as stack:
        paths = {
            name: stack.enter_context(atomic_path(maps.path(frame.name,
                                                            name)))
            for name in dtypes
        }
        for name, path in paths.items():
            np.lib.format.open_memmap(
                path, 'w+', dtypes[name], image.size)
        for tile in progress(tiles, frame.name, len(tiles)):
            for name, values in _predict(inferencer, image, tile).items():
                # Opened for one tile: what is mapped counts as memory.
                target = np.load(paths[name], mmap_mode='r+')
                target[tile.rows, tile.columns] = values
                target.flush()
                del target
                preview.put(name, tile, values)
            preview.put('image', tile, to_rgb(image.region(*tile[:2])))
    planes = preview.planes
    return MapResult(
        frame.name, planes.pop(PREDICTION), image=planes.pop('image'),
        maps=planes)


class _Preview:
    """Every n-th pixel of an image and of its maps."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.step = -(-max(size) // PREVIEW_SIDE)
        self.size = tuple(-(-side // self.step) for side in size)
        self.planes: dict[str, np.ndarray] = {}

    def put(self, name: str, tile: Tile, values: np.ndarray) -> None:
        """Take what the tile has of them."""
        step = self.step
        if name not in self.planes:
            self.planes[name] = np.empty(
                self.size + values.shape[2:], values.dtype)
        own, target = zip(*(
            (slice(-span.start % step, None, step),
             slice(-(-span.start // step), -(-span.stop // step)))
            for span in (tile.rows, tile.columns)))
        self.planes[name][target] = values[own]


def _predict(inferencer: ABNNInferencer, image: _Image,
             tile: Tile) -> dict[str, np.ndarray]:
    """Maps and class ids of a tile."""
    seen = image.region(tile.seen_rows, tile.seen_columns)
    sample = SegDataSample(metainfo=dict(
        ori_shape=_shape(tile.rows, tile.columns),
        img_shape=seen.shape[:2],
        pad_shape=seen.shape[:2],
        # What lies around the tile goes as if it had been padded.
        padding_size=(
            tile.columns.start - tile.seen_columns.start,
            tile.seen_columns.stop - tile.columns.stop,
            tile.rows.start - tile.seen_rows.start,
            tile.seen_rows.stop - tile.rows.stop)))
    [sample] = inferencer.predict([dict(
        inputs=torch.from_numpy(seen).permute(2, 0, 1), data_samples=sample)])
    maps = {
        score: sample.uncertainty.get(score)[0].cpu().numpy()
        for score in inferencer.scores
    }
    maps[PREDICTION] = sample.pred_sem_seg.data[0].cpu().numpy()
    return maps


def make_tiles(size: tuple[int, int], side: int, crop: tuple[int, int],
               stride: tuple[int, int]) -> list[Tile]:
    """Tiles of an image, row by row."""
    rows, columns = (
        _spans(*arguments)
        for arguments in zip(size, (side, side), crop, stride))
    return [Tile(row, column, seen_row, seen_column)
            for row, seen_row in rows for column, seen_column in columns]


def _spans(size: int, side: int, crop: int,
           stride: int) -> list[tuple[slice, slice]]:
    """Stretches of one axis, and what the windows that touch them see.

    All windows but the last start at multiples of the stride, so those of a
    stretch lie in what it sees as the windows of an image of that size would.
    """
    windows = window_slices(size, crop, stride)
    spans = []
    for start in range(0, size, side):
        stop = min(start + side, size)
        touching = [w for w in windows if w.start < stop and w.stop > start]
        spans.append((slice(start, stop),
                      slice(touching[0].start, touching[-1].stop)))
    return spans


def _shape(rows: slice, columns: slice) -> tuple[int, int]:
    return rows.stop - rows.start, columns.stop - columns.start


def _prepare(model, tile: int) -> None:
    """Refuse what cannot go by tiles; let one network run at a time."""
    if tile < 1:
        raise ValueError(f'tile={tile} must be at least 1 pixel.')
    if (model.test_cfg or {}).get('mode', 'whole') != 'slide':
        raise ValueError(
            "large images are predicted window by window; write test_cfg="
            "dict(mode='slide', crop_size=(768, 768), stride=(512, 512)) in "
            'the model of the config.')
    if getattr(model.data_preprocessor, 'test_cfg', None):
        raise ValueError('data_preprocessor.test_cfg pads images, which '
                         'tiles do not need; remove it.')
    posterior = model.posterior
    if getattr(posterior, 'draws_per_pass', 1) is None:
        # Every network in a pass has the logits of a whole tile.
        posterior.draws_per_pass = 1
