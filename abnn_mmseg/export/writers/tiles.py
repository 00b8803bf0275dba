"""Write maps of large images as npy, tile by tile."""
import errno
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from abnn_mmseg.export.writers.base import MapWriter
from abnn_mmseg.utils.files import atomic_path

Planes = dict[str, DTypeLike]


class TileWriter(MapWriter):
    """Writes maps and prediction of large images, one file each.

    Tiles are written into the files that :meth:`open` returns.
    """

    def paths(self, name):
        """The files of all maps of one image, and the prediction."""
        return [*super().paths(name), self.path(name, 'prediction')]

    def open(self, stack: ExitStack, name: str, size: tuple[int, int],
             dtypes: Planes, source: Any) -> dict[str, Any]:
        """Open the files of one image, by plane.

        Args:
            stack (ExitStack): The files are complete when it closes.
            name (str): Name of the image.
            size (tuple[int, int]): Height and width of the image.
            dtypes (dict): Type of the numbers, by plane.
            source: The source of the tiles.
        """
        self.refuse_existing(name)
        paths = {plane: stack.enter_context(
            atomic_path(self.path(name, plane))) for plane in dtypes}
        return {plane: stack.enter_context(
            self.make_file(path, dtypes[plane], size, source))
            for plane, path in paths.items()}

    def make_file(self, path: Path, dtype: DTypeLike, size: tuple[int, int],
                  source: Any) -> Any:
        """A file with a method ``put(rows, columns, values)``."""
        raise NotImplementedError

    def write(self, result):
        """Do nothing: tiles are written when they are predicted."""


class NpyTiles(TileWriter):
    """``npy/<map>/<name>.npy`` and ``npy/prediction/<name>.npy``."""

    format, suffix = 'npy', '.npy'

    def make_file(self, path, dtype, size, source):
        """A NumPy array with reserved disk space."""
        return TileFile(path, dtype, size)


class TileFile:
    """An array in a file, written region by region in any order.

    Its space is reserved first, so a full disk is an error before anything is
    computed. Regions are written by ordinary writes: with a mapped file, a
    full disk would kill the process.
    """

    def __init__(self, path: Path, dtype: DTypeLike,
                 size: tuple[int, int]) -> None:
        self._path = path
        self._dtype = np.dtype(dtype)
        self._size = size

    def __enter__(self) -> 'TileFile':
        with ExitStack() as stack:
            self._file = stack.enter_context(
                open(self._path, 'wb', buffering=0))
            header = dict(descr=np.lib.format.dtype_to_descr(self._dtype),
                          fortran_order=False, shape=self._size)
            np.lib.format.write_array_header_1_0(self._file, header)
            self._start = self._file.tell()
            height, width = self._size
            self._reserve(height * width * self._dtype.itemsize)
            stack.pop_all()
        return self

    def __exit__(self, *error) -> None:
        self._file.close()

    def _reserve(self, count: int) -> None:
        if not hasattr(os, 'posix_fallocate'):
            self._file.truncate(self._start + count)
            return
        try:
            os.posix_fallocate(self._file.fileno(), self._start, count)
        except OSError as error:
            # Not every file system can reserve space.
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
            self._file.truncate(self._start + count)

    def put(self, rows: slice, columns: slice, values: np.ndarray) -> None:
        """Write a region."""
        values = np.ascontiguousarray(values, self._dtype)
        for row, line in zip(range(rows.start, rows.stop), values):
            first = row * self._size[1] + columns.start
            self._file.seek(self._start + first * self._dtype.itemsize)
            _write_all(self._file, line)


def _write_all(file, line: np.ndarray) -> None:
    """Write all bytes; an unbuffered file may take fewer at once."""
    data = memoryview(line.data).cast('B')
    while data:
        data = data[file.write(data):]
