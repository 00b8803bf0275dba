"""Colour scales of maps whose values fill little of their range."""
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from mmengine.dist import all_gather_object, get_world_size

from abnn_mmseg.export.result import MapResult
from abnn_mmseg.export.writers.settings import (
    Range,
    WriterSettings,
    natural_range,
)
from abnn_mmseg.utils.colours import range_of, scale_of
from abnn_mmseg.utils.files import atomic_write


def with_scales(results: Iterable[MapResult], settings: WriterSettings,
                count: int) -> Iterator[MapResult]:
    """Yield results once the scales of a set's pictures are known.

    They are measured on the first results of all processes and kept in
    ``scales.json``, which later runs with ``resume`` read.

    Args:
        results (Iterable[MapResult]): Those of this process, in the order of
            the images.
        settings (WriterSettings): Its ``measured`` scales are filled.
        count (int): How many images to measure.
    """
    path = Path(settings.folder) / 'scales.json'
    known: dict[str, Range] = {}
    if settings.resume and path.is_file():
        known = json.loads(path.read_text(encoding='utf-8'))
    results = iter(results)
    share = len(range(settings.rank, count, get_world_size()))
    first = list(islice(results, share))
    scores = [score for score in settings.scores
              if settings.is_measured(score) and score not in known]
    parts = all_gather_object([
        {score: range_of(result.map(score)) for score in scores}
        for result in first])
    ranges = [part for parts_of_rank in parts for part in parts_of_rank]
    if ranges:
        known.update((score, scale_of(
            [part[score] for part in ranges],
            natural_range(score, 2) is not None)) for score in scores)
    if known and settings.rank == 0:
        atomic_write(path, json.dumps(known, indent=2) + '\n')
    settings.measured.update(known)
    yield from first
    yield from results
