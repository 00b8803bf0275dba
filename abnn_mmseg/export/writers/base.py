"""The base classes of all writers."""
from collections.abc import Iterable
from pathlib import Path
from typing import Optional

from abnn_mmseg.export.result import MapResult
from abnn_mmseg.export.writers.settings import WriterSettings, slug
from abnn_mmseg.utils import atomic_write
from abnn_mmseg.utils.files import size_of


class Writer:
    """Writes results, one at a time, from any thread.

    A subclass names the files of an image (:meth:`paths`) and writes them
    atomically (:meth:`save`). The caller decides which images to write.

    Args:
        settings: See :class:`WriterSettings`.
    """

    def __init__(self, settings: WriterSettings) -> None:
        self.settings = settings
        self.folder = Path(settings.folder)

    def paths(self, name: str) -> list[Path]:
        """All files of one image."""
        raise NotImplementedError

    def save(self, result: MapResult) -> None:
        """Write all files of one image."""
        raise NotImplementedError

    def sizes(self, name: str) -> list[Optional[int]]:
        """The bytes of each file of an image; None where there is none."""
        return [size_of(path) for path in self.paths(name)]

    def complete(self, name: str,
                 sizes: Optional[list[Optional[int]]] = None) -> bool:
        """Whether all files of an image are there as they were written.

        Args:
            name (str): Name of the image.
            sizes (list, optional): What :meth:`sizes` gave when the files
                were written. If unknown, the files must exist.
        """
        found = self.sizes(name)
        return None not in found if sizes is None else found == sizes

    def write(self, result: MapResult) -> None:
        """Write one image."""
        self.refuse_existing(result.name)
        self.save(result)

    def clear(self, names: Iterable[str]) -> None:
        """Remove the files of images, and those of the whole set."""
        for name in names:
            for path in self.paths(name):
                path.unlink(missing_ok=True)

    def refuse_existing(self, name: str) -> None:
        """Raise FileExistsError if an image has files already."""
        if not self.settings.overwrite and not self.settings.resume:
            for path in self.paths(name):
                refuse_existing(path)

    def close(self) -> None:
        """Write the files of the whole set."""


class MapWriter(Writer):
    """One file per map: ``<folder>/<format>/<map>/<name><suffix>``."""

    format: str
    suffix: str

    def path(self, name: str, score: str) -> Path:
        """The file of one map."""
        # Not `with_suffix`: a stem may hold dots.
        return self.folder / self.format / slug(score) / f'{name}{self.suffix}'

    def paths(self, name):
        """The files of all maps of one image."""
        return [self.path(name, score) for score in self.settings.scores]

    def save(self, result):
        """Write the files of all maps of one image."""
        for score in self.settings.scores:
            atomic_write(
                self.path(result.name, score), self.encode(result, score))

    def encode(self, result: MapResult, score: str) -> bytes:
        """The content of the file."""
        raise NotImplementedError


def refuse_existing(path: Path) -> None:
    """Raise FileExistsError if a file exists."""
    if path.exists():
        raise FileExistsError(
            f'{str(path)!r} exists. Add --overwrite to replace it, --resume '
            'to keep what is complete, or choose another folder.')
