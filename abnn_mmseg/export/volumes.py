"""Slices of NIfTI volumes as images."""
import contextlib
import gzip
import re
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Union

import numpy as np

SUFFIX = re.compile(r'\.nii(\.gz)?$', re.IGNORECASE)
# Held while a volume is unpacked, so that only one thread does it.
LOCK = Lock()


@dataclass(frozen=True)
class Slice:
    """One slice of a volume, across its third axis.

    Args:
        path (Path): The volume.
        number (int): Which slice.
    """
    path: Path
    number: int

    def __str__(self) -> str:
        return str(self.path)

    def pixels(self, channels: int) -> np.ndarray:
        """The pixels ``[H, W, C]``, with 0 for NaN.

        Rows are the second axis of the volume, columns its first.

        Args:
            channels (int): Channels of the model. Without a fourth axis of the
                volume, all channels have the same values.
        """
        with _explained(self.path), LOCK:
            image = _unpacked(self.path, self.path.stat().st_mtime_ns)
            values = np.asarray(image.dataobj[:, :, self.number])
        pixels = np.nan_to_num(values.swapaxes(0, 1))
        if pixels.ndim == 2:
            return pixels[..., None].repeat(channels, -1)
        return np.ascontiguousarray(pixels)


def is_volume(path: Union[str, Path]) -> bool:
    """Whether the name of a file is that of a NIfTI volume."""
    return bool(SUFFIX.search(str(path)))


def slices_of(path: Path) -> list[Slice]:
    """All slices of a volume; only its header is read."""
    return [Slice(path, number) for number in range(header_of(path).shape[2])]


def header_of(path: Path) -> Any:
    """The image of nibabel, with header but without voxels."""
    with _explained(path):
        image = _nibabel().load(path)
    if len(image.shape) not in (3, 4) or image.get_data_dtype().fields:
        raise ValueError(
            f'{path} is {image.get_data_dtype()} {list(image.shape)}; give '
            'numbers [X, Y, Z], or [X, Y, Z, C] for a model of C channels.')
    return image


@lru_cache(maxsize=2)
def _unpacked(path: Path, stamp: int) -> Any:
    """The volume, unpacked to a temporary file if it is compressed.

    Slices of a compressed file cannot be read directly. With another time
    stamp the volume is unpacked again.
    """
    if not path.name.lower().endswith('.gz'):
        return header_of(path)
    folder = tempfile.TemporaryDirectory(prefix='abnn-volume-')
    plain = Path(folder.name) / 'volume.nii'
    with gzip.open(path) as packed, open(plain, 'wb') as file:
        shutil.copyfileobj(packed, file)
    image = header_of(plain)
    weakref.finalize(image, folder.cleanup)
    return image


def _nibabel() -> Any:
    try:
        import nibabel
    except ImportError as error:
        raise ImportError('NIfTI volumes need the package nibabel: '
                          'pip install nibabel.') from error
    return nibabel


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Explain the errors of a damaged file."""
    nibabel = _nibabel()
    try:
        yield
    except (OSError, EOFError, ValueError, zlib.error,
            nibabel.filebasedimages.ImageFileError,
            nibabel.spatialimages.HeaderDataError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f'{path} cannot be read; it is truncated or no '
                         f'NIfTI volume ({error}).') from error
