"""Write the files of the page, image by image."""
import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Optional, Union

import cv2
import numpy as np

from abnn_mmseg.export import regions
from abnn_mmseg.export.gallery.objects import find_objects, levels
from abnn_mmseg.export.gallery.page import write_page
from abnn_mmseg.export.result import MapResult
from abnn_mmseg.export.writers.arrays import encode_picture, quantise
from abnn_mmseg.export.writers.base import Writer, refuse_existing
from abnn_mmseg.export.writers.ranking import summary
from abnn_mmseg.export.writers.settings import WriterSettings
from abnn_mmseg.utils import atomic_write
from abnn_mmseg.utils.colours import byte_ids, palette_table, shrunk

THUMB_SIDE = 320
# Most regions of an image; the page shows the worst of all images.
MOST_REGIONS = 20
# Levels of a map over the image's own range. More levels would be noise, which
# does not compress.
STEPS = 4095

# Folder and suffix of the files of an image, the last one written last.
FILES = (('images', 'jpg'), ('thumbs/image', 'jpg'),
         ('thumbs/prediction', 'png'), ('data', 'js'), ('items', 'json'))


class GalleryWriter(Writer):
    """Writes a folder with an ``index.html`` to look at results.

    An image has ``images/<name>.jpg``, ``thumbs/*/<name>``, and its numbers
    in ``data/<name>.js``: a page that is opened from disk may load scripts,
    but may not fetch files or read the pixels of pictures. The data of the
    grid is in ``items/<name>.json``, which is written last. :meth:`close`
    makes the page of all items in the folder, including those of other
    processes and earlier runs. Images larger than ``max_side`` are shown by
    every n-th pixel, so that numbers stay those of the map.

    Args:
        settings: See :class:`WriterSettings`.
        folder: Folder of the page. Defaults to ``gallery`` in the output
            folder.
    """

    def __init__(self, settings: WriterSettings,
                 folder: Union[str, Path, None] = None) -> None:
        super().__init__(settings)
        self.folder = Path(folder or self.folder / 'gallery')
        if not settings.overwrite and not settings.resume:
            refuse_existing(self.folder / 'index.html')
        if settings.overwrite and settings.rank == 0:
            # The page shows all items there are.
            for path in (self.folder / 'items').rglob('*.json'):
                path.unlink()

    def clear(self, names):
        """Remove the files of images, and the page."""
        super().clear(names)
        (self.folder / 'index.html').unlink(missing_ok=True)

    def paths(self, name):
        """All files of one image."""
        return [self.folder / folder / f'{name}.{suffix}'
                for folder, suffix in FILES]

    def save(self, result):
        """Write the pictures, data and item of one image."""
        image, thumb, prediction, data, item = self.paths(result.name)
        if result.image is not None:
            shown = shrunk(
                result.image, self.settings.max_side, cv2.INTER_AREA)
            atomic_write(image, _jpeg(shown, 90))
            atomic_write(
                thumb, _jpeg(shrunk(shown, THUMB_SIDE, cv2.INTER_AREA), 85))
        atomic_write(prediction, self._prediction_thumb(result))
        atomic_write(data, self._data(result))
        atomic_write(item, json.dumps(self._item(result)))

    def close(self):
        """Make the page of all items."""
        if self.settings.rank == 0:
            write_page(self.folder, self.settings)

    def _prediction_thumb(self, result):
        settings = self.settings
        ids = shrunk(byte_ids(result.prediction, result.name), THUMB_SIDE)
        table = palette_table(settings.palette, len(settings.classes))
        return encode_picture('.png', table[ids][..., ::-1])

    def _data(self, result):
        side = self.settings.max_side
        planes = dict(prediction=result.prediction,
                      truth=result.ground_truth, anomaly=result.anomaly)
        data: dict[str, Any] = {
            key: _pack(shrunk(byte_ids(ids, result.name), side))
            for key, ids in planes.items() if ids is not None}
        data['height'], data['width'] = shrunk(result.prediction, side).shape
        data['maps'] = {
            score: _pack_map(shrunk(result.map(score), side))
            for score in self.settings.scores}
        data['guaranteed'] = {
            risk: _pack(np.stack([
                shrunk(part, side) for part in np.packbits(
                    plane.reshape(-1, *plane.shape[-2:]), axis=0,
                    bitorder='little')]))
            for risk, plane in result.guaranteed.items()}
        call = f'gallery.receive({json.dumps(result.name)}, '
        return f'{call}{json.dumps(data)});\n'

    def _item(self, result):
        height, width = result.prediction.shape
        item = dict(name=result.name, width=width, height=height,
                    image=result.image is not None, maps={},
                    truth=result.ground_truth is not None)
        maps = {score: result.map(score) for score in self.settings.scores}
        for score, values in maps.items():
            item['maps'][score] = _map_item(values)
        item['regions'] = self._regions(result)
        if result.anomaly is not None:
            item['anomaly'] = float((result.anomaly == 1).mean())
            item['objects'] = find_objects(result.anomaly, maps)
            known = result.anomaly == 0
            item['known'] = {
                score: dict(levels=levels(values, known),
                            count=int(known.sum()))
                for score, values in maps.items()}
        return item

    def _regions(self, result):
        """The worst areas above the threshold of the first map, if any."""
        settings = self.settings
        score = settings.scores[0]
        threshold = settings.given_threshold(score)
        if threshold is None:
            return []
        found = regions.measure(
            result, score, threshold, regions.uncertain_patches(
                result.map(score), threshold, settings.min_area))
        names = dict(enumerate(settings.classes))
        return [{'box': region.box, 'area': region.area,
                 'mean': region.mean, 'excess': region.excess,
                 'class': names.get(region.class_id, region.class_id)}
                for region in found[:MOST_REGIONS]]


def _map_item(values):
    low, high = float(values.min()), float(values.max())
    thumb = shrunk(values, THUMB_SIDE, cv2.INTER_AREA)
    grey = encode_picture(
        '.png', quantise(thumb, low, high, 255).astype(np.uint8))
    return dict(summary(values), min=low, range=[low, high],
                levels=levels(values), count=values.size,
                thumb=base64.b64encode(grey).decode())


def _jpeg(picture, quality):
    return encode_picture('.jpg', picture[..., ::-1],
                          (cv2.IMWRITE_JPEG_QUALITY, quality))


def _pack(plane: np.ndarray) -> str:
    # Level 1 takes a fifth of the time of level 6 for 10 % more bytes.
    return base64.b64encode(zlib.compress(plane.tobytes(), 1)).decode()


def _pack_map(values):
    """Encode a map as differences of pixels: high bytes, then low bytes.

    Both are mostly zeros, which compress well.
    """
    low, high = float(values.min()), float(values.max())
    levels = quantise(values, low, high, STEPS).ravel()
    steps = np.diff(levels, prepend=levels.dtype.type(0))
    planes = np.stack([steps >> 8, steps & 255]).astype(np.uint8)
    return dict(low=low, high=high, steps=STEPS, levels=_pack(planes))


def write_gallery(folder: Union[str, Path], results: Iterable[MapResult],
                  classes: Sequence[str], palette: Sequence[Sequence[int]],
                  title: str = 'Uncertainty maps',
                  metrics: Optional[Sequence[Mapping[str, Any]]] = None,
                  **settings) -> Path:
    """Write a page over results and return its ``index.html``.

    Args:
        folder: Folder of the page.
        results: Any iterable; one result is in memory at a time. Shows the
            maps of the first one, unless ``scores`` names others.
        classes: Class names.
        palette: One RGB triple per class.
        title: Heading of the page.
        metrics: Rows of a table at the top, one dict per row.
        settings: Other fields of :class:`WriterSettings`.
    """
    results = iter(results)
    first = next(results, None)
    if first is None:
        raise ValueError(f'There is no result to show in {str(folder)!r}.')
    settings.setdefault('scores', list(first.maps))
    writer = GalleryWriter(
        WriterSettings(folder, classes=classes, palette=palette, title=title,
                       metrics=metrics, **settings), folder)
    for result in chain([first], results):
        writer.write(result)
    writer.close()
    return writer.folder / 'index.html'
