"""Writers of tables over the whole set: one line an image, joined last."""
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from mmengine.dist import get_world_size

from abnn_mmseg.export.result import MapResult
from abnn_mmseg.export.writers.base import Writer, refuse_existing
from abnn_mmseg.export.writers.settings import WriterSettings
from abnn_mmseg.utils import append_line
from abnn_mmseg.utils.files import behind, read_lines

Rows = dict[str, dict[str, Any]]


class JournalWriter(Writer):
    """A writer with tables in ``<folder>/<format>``.

    Each image is one line appended to ``rows.rank<N>.jsonl`` when it is
    done; the tables are made of these lines in :meth:`close`. So an image
    costs one line however large the set, a killed run loses nothing, and
    processes do not share a file.

    A subclass has the numbers of an image by map (:meth:`rows_of`), the
    names of the tables, and joins the lines of all images.
    """

    format: str

    def __init__(self, settings: WriterSettings) -> None:
        super().__init__(settings)
        self._lock = Lock()
        self._folder = self.folder / self.format
        self._journal = self._folder / f'rows.rank{settings.part}.jsonl'
        if not settings.overwrite and not settings.resume:
            for path in [self._journal, *self.tables()]:
                refuse_existing(path)
        if settings.overwrite:
            self._forget()
        lines = read_lines(self._journals()) if settings.resume else []
        self._done = set(self._rows(lines))
        self._behind = behind(lines)

    def rows_of(self, result: MapResult) -> dict[str, Any]:
        """What the tables need of an image, by map."""
        raise NotImplementedError

    def tables(self) -> list[Path]:
        """Files of the whole set."""
        raise NotImplementedError

    def join(self, rows: Rows) -> None:
        """Write the tables, of the rows by image and map."""
        raise NotImplementedError

    def paths(self, name):
        """No files: those of the set are written at the end."""
        return []

    def complete(self, name):
        """Whether the rows of an image are in a journal."""
        return name in self._done and super().complete(name)

    def save(self, result):
        """Append the rows of one image to the journal."""
        line = json.dumps(dict(
            image=result.name, maps=self.rows_of(result),
            time=time.time() + self._behind))
        with self._lock:
            append_line(self._journal, line)
            self._done.add(result.name)

    def clear(self, names: Iterable[str]) -> None:
        """Remove the tables and journals."""
        super().clear(names)
        for path in [*self._journals(), *self.tables()]:
            path.unlink(missing_ok=True)

    def close(self):
        """Join the rows of all processes, on the main process."""
        if self.settings.rank != 0:
            return
        seen = None
        # Another shard may write lines, and its own tables, meanwhile.
        while seen != (seen := self._sizes()):
            self.join(self._rows(read_lines(self._journals())))

    def _sizes(self) -> list[int]:
        return [path.stat().st_size for path in self._journals()]

    def _journals(self) -> list[Path]:
        return sorted(self._folder.glob('rows.rank*.jsonl'))

    def _forget(self) -> None:
        """Drop the lines of an earlier run, in more processes too."""
        self._journal.unlink(missing_ok=True)
        if self.settings.rank == 0:
            for journal in self._journals():
                rank = journal.name[len('rows.rank'):-len('.jsonl')]
                if int(rank) >= get_world_size():
                    journal.unlink()

    def _rows(self, lines: Sequence[dict]) -> Rows:
        """Image name to maps, from the lines of all processes."""
        # An image may have been made again, by another process.
        return {line['image']: line['maps'] for line in lines
                if set(self.settings.scores) <= set(line['maps'])}
