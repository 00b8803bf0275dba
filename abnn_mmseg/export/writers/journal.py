"""Writers of tables over the whole set, from one line per image."""
import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mmengine.dist import get_world_size

from abnn_mmseg.export.result import MapResult
from abnn_mmseg.export.writers.base import Writer, refuse_existing
from abnn_mmseg.export.writers.settings import WriterSettings
from abnn_mmseg.utils.files import Journal

Rows = dict[str, dict[str, Any]]


class JournalWriter(Writer):
    """A writer with tables in ``<folder>/<format>``.

    For each image, a line is appended to ``rows.rank<N>.jsonl``; the tables
    are made of these lines in :meth:`close`. So writing an image does not
    depend on the size of the set, a killed run loses nothing, and processes
    do not share a file.

    A subclass computes the numbers of an image by map (:meth:`rows_of`), names
    the tables (:meth:`tables`) and writes them (:meth:`join`).
    """

    format: str

    def __init__(self, settings: WriterSettings) -> None:
        super().__init__(settings)
        self._folder = self.folder / self.format
        self._journal = Journal(
            self._folder, 'rows', settings.part, settings.resume)
        if not settings.overwrite and not settings.resume:
            for path in [self._journal.path, *self.tables()]:
                refuse_existing(path)
        if settings.overwrite:
            self._forget()
        self._done = set(self._rows(self._journal.lines))

    def rows_of(self, result: MapResult) -> dict[str, Any]:
        """The numbers of an image for the tables, by map."""
        raise NotImplementedError

    def tables(self) -> list[Path]:
        """The files of the whole set."""
        raise NotImplementedError

    def join(self, rows: Rows) -> None:
        """Write the tables from rows by image and map."""
        raise NotImplementedError

    def paths(self, name):
        """No files: the tables are written at the end."""
        return []

    def complete(self, name, sizes=None):
        """Whether the rows of an image are in a journal."""
        return name in self._done and super().complete(name, sizes)

    def save(self, result):
        """Append the rows of one image to the journal."""
        self._journal.append(image=result.name, maps=self.rows_of(result))
        self._done.add(result.name)

    def clear(self, names: Iterable[str]) -> None:
        """Remove the tables and journals."""
        super().clear(names)
        for path in [*self._journal.paths(), *self.tables()]:
            path.unlink(missing_ok=True)

    def close(self):
        """Write the tables from the rows of all processes."""
        if self.settings.rank != 0:
            return
        seen = None
        # Another shard may write lines and tables at the same time.
        while seen != (seen := self._sizes()):
            self.join(self._rows(self._journal.read()))

    def _sizes(self) -> list[int]:
        return [path.stat().st_size for path in self._journal.paths()]

    def _forget(self) -> None:
        """Drop the lines of an earlier run, in more processes too."""
        self._journal.path.unlink(missing_ok=True)
        if self.settings.rank == 0:
            for path in self._journal.paths():
                rank = path.name[len('rows.rank'):-len('.jsonl')]
                if int(rank) >= get_world_size():
                    path.unlink()

    def _rows(self, lines: Sequence[dict]) -> Rows:
        """Image name to maps, from the lines of all processes."""
        # If an image was written twice, the last line counts.
        return {line['image']: line['maps'] for line in lines
                if set(self.settings.scores) <= set(line['maps'])}


def csv_of(columns: Sequence[str], rows: Iterable[dict]) -> str:
    """A table as CSV; rows may have other keys than the columns."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator='\n',
                            extrasaction='ignore')
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()
