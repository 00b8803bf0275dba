"""Write the ``index.html`` of a gallery folder."""
import base64
import html
import json
from math import isfinite
from pathlib import Path
from statistics import median

import cv2
import numpy as np

from abnn_mmseg.export.gallery.objects import (
    FALSE_ALARMS,
    compare_objects,
    find_pair,
    pooled,
)
from abnn_mmseg.export.gallery.words import meaning_of, title_of
from abnn_mmseg.export.writers.arrays import encode_picture
from abnn_mmseg.export.writers.settings import natural_range, slug
from abnn_mmseg.uncertainty import score_of
from abnn_mmseg.utils import atomic_write
from abnn_mmseg.utils.colours import (
    colour_table,
    colourise,
    palette_table,
)
from abnn_mmseg.utils.files import files_below

# The parts of the page, which are joined into one file.
WEB = Path(__file__).with_name('web')
SCRIPTS = ('base', 'grid', 'pixels', 'layers', 'compare', 'difference',
           'regions', 'view', 'cursor', 'zoom', 'controls')


def write_page(folder: Path, settings) -> None:
    """Write the page of all items of the folder.

    The thumbnails of maps are coloured here, because their scale depends on
    the whole set.
    """
    items = _items(folder / 'items', settings.scores)
    pair = find_pair(settings.scores)
    difference = compare_objects(items, pair)
    maps = _maps(items, settings)
    for item in items:
        for entry in maps:
            stats = item['maps'][entry['name']]
            _colour_thumb(folder / entry['thumbs'] / f'{item["name"]}.jpg',
                          stats, entry['scale'], settings.colormap)
    palette = palette_table(settings.palette, len(settings.classes))
    data = dict(
        title=settings.title,
        classes=list(settings.classes),
        palette=palette[:len(settings.classes) or 256].tolist(),
        colours=colour_table(settings.colormap).tobytes().hex(),
        metrics=[dict(row) for row in settings.metrics or ()],
        maps=maps,
        guarantees={risk: entry['promise'] for risk, entry in (
            settings.guarantees or {}).items()},
        paired=pair is not None,
        pair=pair or (settings.scores[0], settings.scores[-1]),
        difference=difference,
        images=[_shown(item) for item in items])
    page = _read('page.html').replace('{{style}}', _read('style.css'))
    page = page.replace('{{script}}', '\n'.join(
        _read(f'{name}.js') for name in SCRIPTS))
    page = page.replace('{{title}}', html.escape(settings.title))
    # `<` could end the script element early.
    text = json.dumps(_plain(data), separators=(',', ':'), allow_nan=False)
    page = page.replace('{{data}}', text.replace('<', '\\u003c'))
    atomic_write(folder / 'index.html', page)


def _read(name):
    return (WEB / name).read_text(encoding='utf-8')


def _shown(item):
    """An item without the numbers that only thresholds need."""
    item = {key: value for key, value in item.items() if key != 'known'}
    item['maps'] = {
        name: {key: row[key] for key in ('mean', 'p95', 'max')}
        for name, row in item['maps'].items()}
    return item


def _items(folder, scores):
    """Items that have all the maps, without temporary files."""
    paths = [path for path in files_below(folder) if path.suffix == '.json']
    items = [json.loads(path.read_text(encoding='utf-8')) for path in paths]
    return [item for item in items if set(scores) <= set(item['maps'])]


def _maps(items, settings):
    """Name, colour scale, slider range and threshold of every map.

    Maps of the same score share them, so that ``'msp'`` and ``'base: msp'``
    compare.
    """
    maps = []
    for score in settings.scores:
        alike = [other for other in settings.scores
                 if score_of(other) == score_of(score)]
        stats = [item['maps'][other] for item in items for other in alike]
        low = min((row['min'] for row in stats), default=0.0)
        # Most scores start at zero, even if no pixel is zero.
        low = 0.0 if natural_range(score, 2) else low
        top = max((row['max'] for row in stats), default=1.0)
        # The brightest colour is at the 99th percentile, so that maps with few
        # high values, such as mutual information, are not dark.
        high = pooled(stats, 0.99) or 0.0
        maps.append(dict(
            name=score, title=title_of(score), meaning=meaning_of(score),
            thumbs=f'thumbs/map-{slug(score)}',
            scale=settings.given_scale(score) or (
                low, high if high > low else low + 1),
            range=(low, max(top, low + 1e-6)),
            threshold=_threshold(items, score, settings)))
    return maps


def _threshold(items, score, settings):
    """The user's threshold, or one that marks 5 % of the known pixels."""
    threshold = settings.given_threshold(score)
    if threshold is None:
        known = [item['known'][score] for item in items if 'known' in item]
        threshold = pooled(known, 1 - FALSE_ALARMS)
    if threshold is None:
        stats = [item['maps'][score]['p95'] for item in items]
        threshold = median(stats) if stats else 0.0
    return threshold


def _colour_thumb(path, stats, scale, colormap):
    """Write the coloured thumbnail of an item; drop the grey one."""
    data = np.frombuffer(base64.b64decode(stats.pop('thumb')), np.uint8)
    low, high = stats.pop('range')
    levels = np.asarray(cv2.imdecode(data, cv2.IMREAD_UNCHANGED))
    values = low + (high - low) * levels.astype(np.float32) / 255
    picture = colourise(values, scale, colormap)
    atomic_write(path, encode_picture('.jpg', picture[..., ::-1],
                                      (cv2.IMWRITE_JPEG_QUALITY, 85)))


def _plain(value):
    """Convert values for JSON: numbers of NumPy, NaN to null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f'{value:.6g}') if isfinite(value) else None
    return value
