"""Unknown objects that each map finds, at equal false alarms."""
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from abnn_mmseg.datasets.protocol import OOD
from abnn_mmseg.export.gallery.words import title_of
from abnn_mmseg.export.regions import OBJECT, patches_of
from abnn_mmseg.uncertainty import score_of

# The share of known pixels that a threshold marks.
FALSE_ALARMS = 0.05
# The smallest object, as a share of the image.
SMALLEST = 1 / 1500
MOST = 40
STEPS = np.linspace(0, 1, 201)


def levels(values: np.ndarray, valid: Optional[np.ndarray] = None) -> list:
    """201 quantiles of a map, which represent its pixels in a set."""
    pixels = values if valid is None else values[valid]
    if not pixels.size:
        return []
    return np.quantile(pixels, STEPS).astype(float).tolist()


def pooled(rows: Sequence[dict], quantile: float) -> Optional[float]:
    """A quantile over the pixels of a set, from quantiles of its images.

    Args:
        rows: One dict per image: ``levels`` and ``count``, its pixels.
        quantile: A number from 0 to 1.
    """
    rows = [row for row in rows if row['levels']]
    if not rows:
        return None
    values = np.concatenate([row['levels'] for row in rows])
    weights = np.concatenate([
        np.full(len(row['levels']), row['count'] / len(row['levels']))
        for row in rows])
    order = np.argsort(values)
    share = np.cumsum(weights[order]) / weights.sum()
    at = min(int(np.searchsorted(share, quantile)), len(order) - 1)
    return float(values[order[at]])


def find_objects(anomaly: np.ndarray, maps: dict[str, np.ndarray]) -> list:
    """Connected unknown regions, each with its median in every map.

    An object counts as found if at least half of it is marked, that is, if
    its median reaches the threshold.
    """
    found: list[dict[str, Any]] = [
        dict(box=list(patch.box), size=int(patch.mask.sum()), medians={
            name: float(np.median(patch.inside(values)))
            for name, values in maps.items()})
        for patch in patches_of(
            OBJECT, anomaly == OOD, SMALLEST * anomaly.size)]
    return sorted(found, key=lambda item: -item['size'])[:MOST]


def find_pair(scores: Sequence[str]) -> Optional[tuple[str, str]]:
    """The two maps to compare: the same score of the base and of ABNN."""
    for ours in scores:
        for other in sorted(scores, key=lambda name: name[:5] != 'base:'):
            if other != ours and score_of(other) == ours:
                return other, ours
    return None


def compare_objects(items: list, pair: Optional[tuple[str, str]]
                    ) -> Optional[dict[str, Any]]:
    """Mark which map of the pair finds which object; describe the counts.

    The threshold of each map marks :data:`FALSE_ALARMS` of the known pixels of
    the whole set. Objects get ``found``, with a flag for each map.
    """
    objects = [(item, thing) for item in items
               for thing in item.get('objects', ())]
    if pair is None or not objects:
        return None
    thresholds = [
        pooled([item['known'][name] for item in items if 'known' in item],
               1 - FALSE_ALARMS) for name in pair]
    if None in thresholds:
        return None
    for _, thing in objects:
        thing['found'] = [thing['medians'][name] >= threshold
                          for name, threshold in zip(pair, thresholds)]
    both = [thing['found'] for _, thing in objects]
    base, ours = map(sum, zip(*both))
    return dict(
        maps=list(pair), thresholds=thresholds, text=_sentence(
            len(both), base, ours, both.count([False, True]),
            both.count([True, False]), title_of(pair[1])))


def _sentence(count, base, ours, gained, lost, title):
    return (
        f'Thresholds of {title.lower()} are set so that each map wrongly '
        f'marks {FALSE_ALARMS:.0%} of the known pixels. ABNN then finds '
        f'{ours} of {count} objects that training never showed, the base '
        f'{base}: {gained} only ABNN found, {lost} only the base. An object '
        'is found if at least half of it is marked.')
