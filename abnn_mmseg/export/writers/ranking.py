"""Which images to look at first: a CSV sorted by uncertainty."""
import csv
import io
import json
import time
from threading import Lock

import numpy as np
from mmengine.dist import get_world_size

from abnn_mmseg.export.writers.base import Writer, refuse_existing
from abnn_mmseg.export.writers.settings import slug
from abnn_mmseg.utils import append_line, atomic_write
from abnn_mmseg.utils.files import read_lines

COLUMNS = ('rank', 'image', 'mean', 'p95', 'max', 'share_above', 'threshold')


def summary(values: np.ndarray, threshold=None) -> dict:
    """Mean, 95th percentile, maximum and share above the threshold."""
    row = dict(mean=float(values.mean(dtype=np.float64)),
               p95=float(np.percentile(values, 95)),
               max=float(values.max()))
    if threshold is not None:
        row.update(share_above=float((values >= threshold).mean()),
                   threshold=threshold)
    return {key: float(f'{value:.6g}') for key, value in row.items()}


class CsvWriter(Writer):
    """``csv/<map>.csv``, the most uncertain image (by mean) first.

    Each image is one line appended to ``csv/rows.rank<N>.jsonl`` when it is
    done; the tables are made of these lines in :meth:`close`. So an image
    costs one line however large the set, a killed run loses nothing, and
    processes do not share a file.
    """

    def __init__(self, settings):
        super().__init__(settings)
        self._lock = Lock()
        self._folder = self.folder / 'csv'
        self._journal = self._folder / f'rows.rank{settings.rank}.jsonl'
        if not settings.overwrite and not settings.resume:
            for path in [self._journal, *map(self._table, settings.scores)]:
                refuse_existing(path)
        if settings.overwrite:
            self._forget()
        self._done = set(self._rows()) if settings.resume else set()

    def _forget(self):
        """Drop the lines of an earlier run, in more processes too."""
        self._journal.unlink(missing_ok=True)
        if self.settings.rank == 0:
            for journal in self._folder.glob('rows.rank*.jsonl'):
                rank = journal.name[len('rows.rank'):-len('.jsonl')]
                if int(rank) >= get_world_size():
                    journal.unlink()

    def _table(self, score):
        return self._folder / f'{slug(score)}.csv'

    def paths(self, name):
        return []

    def complete(self, name):
        return name in self._done

    def save(self, result):
        settings = self.settings
        maps = {score: summary(result.map(score), settings.threshold_of(score))
                for score in settings.scores}
        line = json.dumps(
            dict(image=result.name, maps=maps, time=time.time()))
        with self._lock:
            append_line(self._journal, line)
            self._done.add(result.name)

    def _rows(self):
        """Image name to maps, from the lines of all processes."""
        lines = read_lines(self._folder.glob('rows.rank*.jsonl'))
        # An image may have been made again, by another process.
        return {line['image']: line['maps'] for line in lines
                if set(self.settings.scores) <= set(line['maps'])}

    def clear(self, names):
        for path in [*self._folder.glob('rows.rank*.jsonl'),
                     *map(self._table, self.settings.scores)]:
            path.unlink(missing_ok=True)

    def close(self):
        if self.settings.rank == 0:
            rows = self._rows()
            for score in self.settings.scores:
                atomic_write(self._table(score), _csv(rows, score))


def _csv(rows, score):
    buffer = io.StringIO()
    table = csv.DictWriter(buffer, COLUMNS, lineterminator='\n')
    table.writeheader()
    # Equal means in the order of names: the same file for any run order.
    order = sorted(rows, key=lambda name: (-rows[name][score]['mean'], name))
    for rank, name in enumerate(order, 1):
        table.writerow(dict(rank=rank, image=name, **rows[name][score]))
    return buffer.getvalue()
