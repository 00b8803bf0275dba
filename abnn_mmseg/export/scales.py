"""Colour scales of maps whose values use little of their range."""
import json
from collections.abc import Iterable, Iterator, Sequence
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
    """Measure the colour scales of a set; then yield its results.

    Scales are measured on the first results of all processes and stored in
    ``scales.json``, which later runs with ``resume`` read.

    Args:
        results (Iterable[MapResult]): The results of this process, in the
            order of the images.
        settings (WriterSettings): Its ``measured`` scales are filled in.
        count (int): Number of images to measure.
    """
    path = Path(settings.folder) / 'scales.json'
    known = _of_first_process(_read(path) if settings.resume else {})
    results = iter(results)
    first: list[MapResult] = []
    scores = [score for score in settings.scores
              if settings.is_measured(score) and score not in known]
    if scores:
        share = len(range(settings.rank, count, get_world_size()))
        first = list(islice(results, share))
        known.update(_measure(first, scores))
        if settings.resume:
            # Another shard may have been faster.
            known = _of_first_process({**known, **_read(path)})
        if known and settings.rank == 0:
            atomic_write(path, json.dumps(known, indent=2) + '\n')
    settings.measured.update(known)
    yield from first
    yield from results


def _measure(results: Sequence[MapResult],
             scores: Sequence[str]) -> dict[str, Range]:
    """The scales of the maps of all processes."""
    parts = all_gather_object([
        {score: range_of(result.map(score)) for score in scores}
        for result in results])
    ranges = [part for parts_of_rank in parts for part in parts_of_rank]
    return {score: scale_of(
        [part[score] for part in ranges],
        natural_range(score, 2) is not None) for score in scores if ranges}


def _read(path: Path) -> dict[str, Range]:
    if not path.is_file():
        return {}
    return json.loads(path.read_text(encoding='utf-8'))


def _of_first_process(known: dict[str, Range]) -> dict[str, Range]:
    return all_gather_object(known)[0]
