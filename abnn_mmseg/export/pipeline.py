"""Load images with the loader and the test transforms of a config."""
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import numpy as np
from mmcv.transforms import LoadAnnotations, LoadImageFromFile
from mmengine.dataset import Compose
from mmseg.datasets.transforms import LoadImageFromNDArray

from abnn_mmseg.export.inputs import Frame
from abnn_mmseg.export.pixels import to_array

# Number of pixels from which percentiles are computed.
MANY = 2**20
# In Python 3.11, parsing headers in several threads sometimes fails.
_PARSER = threading.Lock()


class Loaded(NamedTuple):
    """A loaded image: its name, its input for the network, and RGB."""
    name: str
    data: dict
    image: Optional[np.ndarray]


class Pipeline:
    """The transforms of a dataset, applied to images of any source.

    Files are read by the config's own loader, with its backend, colour type
    and orientation. Arrays and ``.npy`` files skip the loader.

    Args:
        steps (Sequence[dict]): Configs of the transforms.
        channels (int): Number of channels that the model takes.
        side (int, optional): For tiles: the largest side of the picture,
            which has every n-th pixel, and ``Resize`` is left out. Defaults
            to None, for whole images.
    """

    def __init__(self, steps: Sequence[dict], channels: int,
                 side: Optional[int] = None) -> None:
        self.steps = list(steps)
        self.channels = channels
        self.side = side
        self._labelled = [
            step for step in Compose(self.steps).transforms
            if side is None or 'Resize' not in type(step).__name__]
        self._unlabelled = [
            step for step in self._labelled if not _loads_labels(step)]
        self._on_arrays = _on_arrays(self._unlabelled)

    def load(self, frame: Frame) -> Loaded:
        """Load an image from a file, or from pixels of any library."""
        image = frame.image
        if not isinstance(image, (str, Path)):
            return self.load_array(
                frame.name, to_array(image, self.channels))
        if Path(image).suffix == '.npy':
            return self.load_array(frame.name, np.array(open_npy(image)))
        info = dict(img_path=str(image), seg_fields=[],
                    reduce_zero_label=False)
        return self._run(self._unlabelled, frame.name, info)

    def load_array(self, name: str, image: np.ndarray) -> Loaded:
        """Load pixels ``[H, W, C]``, colours in BGR order."""
        self.check_channels(name, image.shape, image.dtype)
        if image.dtype != np.uint8:
            # OpenCV and some torch versions do not know uint16 and others.
            image = image.astype(np.float32)
        return self._run(self._on_arrays, name, dict(img=image))

    def load_labelled(self, name: str, info: dict) -> Loaded:
        """Load an image of a dataset, with its ground truth."""
        return self._run(self._labelled, name, info)

    def check_channels(self, name: str, shape: Sequence[int], dtype) -> None:
        """Raise ValueError for an array that the model cannot take."""
        if len(shape) != 3 or shape[2] != self.channels:
            raise ValueError(
                f'the array {name!r} is {dtype} {list(shape)}, but the model '
                f'takes [H, W, {self.channels}]; give that, in the order and '
                "range of the config's loader (uint8 in BGR order for "
                'colour images).')

    def _run(self, steps: Sequence, name: str, results: Any) -> Loaded:
        path = results.get('img_path') or name
        picture = None
        for step in steps:
            loading = picture is None
            run = _load if loading else _transform
            results = run(step, results, path)
            if results is None:
                raise ValueError(
                    f'{type(step).__name__} of the pipeline drops {path}; '
                    'leave it out of the config to export this image.')
            if loading and results.get('img') is not None:
                picture = to_rgb(every_nth(results['img'], self.side))
        found = len(results['inputs'])
        if found != self.channels:
            raise ValueError(
                f'the loader of the config gives {found} channels of '
                f'{name!r}, but the model takes {self.channels}; give an '
                'image with the bands of training, or let the loader read all '
                "of them (color_type='unchanged', "
                "imdecode_backend='tifffile').")
        return Loaded(name, results, picture)


def every_nth(plane: np.ndarray, side: Optional[int]) -> np.ndarray:
    """Every n-th row and column, at most ``side`` of each."""
    if side is None:
        return plane
    step = -(-max(plane.shape[:2]) // side)
    return plane[::step, ::step]


def to_rgb(image: np.ndarray) -> np.ndarray:
    """A picture, uint8 RGB, of the pixels ``[H, W(, C)]`` of an image.

    8-bit images keep their values; others are scaled from the 1st to the 99th
    percentile. Of more than three channels, the first three are BGR.
    """
    if image.ndim == 2:
        image = image[..., None]
    colours = image[..., 2::-1]
    if image.shape[2] < 3:
        colours = image[..., :1].repeat(3, -1)
    if not _is_8_bit(colours):
        colours = _stretch(colours)
    return np.ascontiguousarray(colours, np.uint8)


def _is_8_bit(image: np.ndarray) -> bool:
    """Whether values are 8-bit integers, even if stored as floats."""
    if image.dtype == np.uint8:
        return True
    if image.dtype.kind != 'f':
        return False
    return bool(image.max() > 1 and np.array_equal(
        image, np.nan_to_num(image).clip(0, 255).astype(np.uint8)))


def _stretch(image: np.ndarray) -> np.ndarray:
    step = max(1, int((image.size / MANY)**0.5))
    some = image[::step, ::step].astype(np.float64)
    some = some[np.isfinite(some)]
    low, high = np.percentile(some, (1, 99)) if some.size else (0., 1.)
    scale = 255 / (high - low) if high > low else 1.
    return np.nan_to_num((image.astype(np.float32) - low) * scale).clip(0, 255)


def open_npy(path: Union[str, Path]) -> np.ndarray:
    """Map the array of a ``.npy`` into memory."""
    try:
        with _PARSER:
            return np.load(path, mmap_mode='r')
    except (ValueError, EOFError) as error:
        raise _undecodable(path, error) from error


def _load(step, results: dict, path) -> Optional[dict]:
    """Run a step that may read the file; raise ValueError if it cannot."""
    if getattr(step, 'imdecode_backend', None) == 'tifffile':
        _need_tifffile()
    try:
        loaded = step(results)
    except (ImportError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise _undecodable(path, error) from error
    if loaded is None:
        raise _undecodable(path, f'{type(step).__name__} gives nothing')
    return loaded


def _need_tifffile() -> None:
    # Without it, mmcv fails with an AttributeError.
    try:
        import tifffile  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "imdecode_backend='tifffile' needs the package tifffile: pip "
            'install tifffile.') from error


def _transform(step, results: dict, path) -> Optional[dict]:
    """Run a step; leave it out if it changes labels that are not loaded."""
    try:
        return step(dict(results))
    except KeyError as error:
        if 'gt_seg_map' in results or not str(error.args[0]).startswith('gt_'):
            raise
        return results


def _undecodable(path, reason) -> ValueError:
    return ValueError(
        f'{path} cannot be decoded; it is empty, truncated or not an image '
        f"that the config's loader can read ({reason}).")


def _loads_labels(step) -> bool:
    name = type(step).__name__
    return isinstance(step, LoadAnnotations) or (
        'Load' in name and 'Annotation' in name)


def _loads(step) -> bool:
    return isinstance(step, LoadImageFromFile) or (
        'Load' in type(step).__name__)


def _on_arrays(steps: list) -> list:
    """The steps for an array: they replace or leave out loaders of files."""
    start = next((i for i, step in enumerate(steps) if _loads(step)), -1)
    as_float = start >= 0 and getattr(steps[start], 'to_float32', False)
    rest = [step for step in steps[start + 1:] if not _loads(step)]
    return [LoadImageFromNDArray(to_float32=as_float), *rest]
