"""Write uncertain areas and predicted segments: CSV, GeoJSON, COCO."""
import json

import numpy as np

from abnn_mmseg.export import regions as areas
from abnn_mmseg.export.regions import Patch, Region
from abnn_mmseg.export.writers.journal import JournalWriter, csv_of
from abnn_mmseg.export.writers.settings import slug
from abnn_mmseg.utils import atomic_write

COLUMNS = ('rank', 'image', 'kind', 'class', 'area', 'x', 'y', 'width',
           'height', 'mean', 'max', 'excess', 'disagreement', 'threshold')


class RegionsWriter(JournalWriter):
    """Areas above the threshold, and predicted segments, worst first.

    ``regions/<map>/<name>.geojson`` has the outlines of an image's regions
    in pixels, ``regions/<map>.csv`` the regions of the set, the worst first
    (see :class:`Region` for the columns), and ``regions/<map>.coco.json`` the
    same in COCO's format, where ``score`` is the mean.
    """

    format = 'regions'

    def __init__(self, settings):
        super().__init__(settings)
        settings.require_thresholds(self.format)

    def tables(self):
        """The files of the whole set."""
        return [self._folder / f'{slug(score)}{suffix}'
                for score in self.settings.scores
                for suffix in ('.csv', '.coco.json')]

    def _path(self, name, score):
        return self._folder / slug(score) / f'{name}.geojson'

    def paths(self, name):
        """The files of one image."""
        return [self._path(name, score) for score in self.settings.scores]

    def rows_of(self, result):
        """The rows of one image in the journal."""
        settings = self.settings
        segments = areas.segment_patches(result.prediction, settings.min_area)
        rows = {}
        for score in settings.scores:
            threshold = settings.given_threshold(score)
            assert threshold is not None  # checked when the writer is made
            patches = areas.uncertain_patches(
                result.map(score), threshold, settings.min_area)
            found = areas.measure(
                result, score, threshold, patches + segments)
            rows[score] = [self._row(region, threshold) for region in found]
            atomic_write(self._path(result.name, score), _geojson(
                result, score, found, rows[score]))
        return rows

    def _row(self, region: Region, threshold: float) -> dict:
        x, y, width, height = region.box
        classes = self.settings.classes
        number = region.class_id
        row = {
            'kind': region.patch.kind,
            'class': classes[number] if number < len(classes) else number,
            'area': region.area, 'x': x, 'y': y, 'width': width,
            'height': height, 'mean': region.mean, 'max': region.largest,
            'excess': region.excess, 'disagreement': region.disagreement,
            'threshold': threshold}
        return {key: float(f'{value:.6g}') if isinstance(value, float)
                else value for key, value in row.items()}

    def join(self, rows):
        """Write the files of the whole set from all rows."""
        for score in self.settings.scores:
            table = [dict(row, image=name, number=number)
                     for name in sorted(rows)
                     for number, row in enumerate(rows[name][score])]
            table.sort(key=lambda row: (
                -row['excess'], -row['mean'], row['image'], row['number']))
            csv_path, coco_path = (
                self._folder / f'{slug(score)}{suffix}'
                for suffix in ('.csv', '.coco.json'))
            atomic_write(csv_path, csv_of(COLUMNS, (
                dict(row, rank=rank) for rank, row in enumerate(table, 1))))
            atomic_write(coco_path, self._coco(sorted(rows), score))

    def _coco(self, names, score) -> str:
        """Categories are numbered from 1, as COCO's own are."""
        images: list[dict] = []
        annotations: list[dict] = []
        for image_id, name in enumerate(names, 1):
            found = json.loads(self._path(name, score).read_text('utf-8'))
            images.append(dict(
                id=image_id, file_name=name, width=found['width'],
                height=found['height']))
            for feature in found['features']:
                annotations.append(dict(
                    id=len(annotations) + 1, image_id=image_id,
                    **_annotation(feature)))
        categories = [dict(id=number, name=name) for number, name in enumerate(
            self.settings.classes, 1)]
        return json.dumps(dict(
            images=images, categories=categories, annotations=annotations))


def _geojson(result, score, found, rows) -> str:
    height, width = result.prediction.shape
    features = [
        dict(type='Feature', bbox=_corners(region),
             geometry=dict(type='Polygon',
                           coordinates=areas.outlines(region.patch)),
             properties=dict(row, class_id=region.class_id,
                             rle=_run_lengths(region.patch, height, width)))
        for region, row in zip(found, rows)]
    return json.dumps(dict(
        type='FeatureCollection', image=result.name, score=score,
        width=width, height=height, features=features))


def _corners(region: Region) -> list[int]:
    x, y, width, height = region.box
    return [x, y, x + width, y + height]


def _annotation(feature) -> dict:
    row, rings = feature['properties'], feature['geometry']['coordinates']
    outline = [[value for point in rings[0] for value in point]]
    return dict(
        category_id=row['class_id'] + 1, area=row['area'], iscrowd=0,
        bbox=[row['x'], row['y'], row['width'], row['height']],
        # Polygons of COCO have no holes.
        segmentation=outline if len(rings) == 1 else row['rle'],
        score=row['mean'], kind=row['kind'])


def _run_lengths(patch: Patch, height: int, width: int) -> dict:
    """COCO's run lengths: of 0 and 1 down the columns, starting with 0."""
    mask = np.zeros((height, patch.mask.shape[1]), bool)
    mask[patch.rows] = patch.mask
    flat = np.concatenate([[False], mask.T.ravel(), [False]])
    changes = np.flatnonzero(flat[1:] != flat[:-1])
    changes += patch.columns.start * height
    counts = np.diff(changes, prepend=0, append=height * width)
    return dict(size=[height, width], counts=counts.tolist())
