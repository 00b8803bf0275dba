"""Maps as numbers: npy, npz, 16-bit PNG, 32-bit TIFF, HDF5."""
import io
import json
from pathlib import PurePosixPath

import cv2
import numpy as np

from abnn_mmseg.export.writers.base import MapWriter, Writer
from abnn_mmseg.export.writers.settings import natural_range, slug
from abnn_mmseg.utils import atomic_write


def encode_picture(suffix: str, pixels: np.ndarray, options=()) -> bytes:
    """The bytes of a picture file; OpenCV's own writer hides disk errors."""
    done, data = cv2.imencode(suffix, pixels, list(options))
    if not done:
        raise ValueError(f'opencv cannot write {pixels.dtype} '
                         f'{list(pixels.shape)} as {suffix}.')
    return data.tobytes()


def quantise(values, low: float, high: float, steps=65535) -> np.ndarray:
    """Numbers in [low, high] as the nearest level of 0, 1, ..., steps.

    The value of a level is ``low + (high - low) * level / steps``.
    """
    if not np.isfinite(values).all():
        raise ValueError('A map holds NaN or infinity, which an integer '
                         'format cannot store: use npy, npz or tiff.')
    span = high - low or 1.0
    levels = (np.asarray(values, np.float64) - low) * (steps / span)
    return np.clip(np.rint(levels), 0, steps).astype(np.uint16)


def _narrow(ids):
    """Class ids in the smallest type: predictions come as 64-bit."""
    return ids.astype(np.min_scalar_type(int(ids.max())))


class NpyWriter(MapWriter):
    """Writes each map as a NumPy array."""

    format, suffix = 'npy', '.npy'

    def encode(self, result, score):
        """The array as the content of a ``.npy``."""
        buffer = io.BytesIO()
        np.save(buffer, result.map(score).astype(self.settings.dtype))
        return buffer.getvalue()


class NpzWriter(Writer):
    """Writes an archive per image: its maps by name and ``prediction``.

    It holds ``probability`` if the result has it. It is not compressed,
    because that takes time and hardly makes floats smaller.
    """

    def paths(self, name):
        """The archive of one image."""
        return [self.folder / 'npz' / f'{name}.npz']

    def save(self, result):
        """Write the archive of one image."""
        dtype = self.settings.dtype
        arrays = {score: result.map(score).astype(dtype)
                  for score in self.settings.scores}
        arrays['prediction'] = _narrow(result.prediction)
        if result.probability is not None:
            arrays['probability'] = result.probability.astype(dtype)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        atomic_write(self.paths(result.name)[0], buffer.getvalue())


class Png16Writer(MapWriter):
    """Writes each map as 16-bit grey PNG, and a JSON to decode it.

    The scale is the range that the score can take, so that images can be
    compared. If the range is unknown or exceeded, it is that of the image.
    """

    format, suffix = 'png16', '.png'

    def paths(self, name):
        """The pictures of one image, and their scales."""
        pictures = super().paths(name)
        return pictures + [self._scale_path(path) for path in pictures]

    @staticmethod
    def _scale_path(path):
        return path.with_name(path.name[:-len('.png')] + '.json')

    def save(self, result):
        """Write the pictures of one image, and their scales."""
        for score in self.settings.scores:
            values = result.map(score)
            low, high = self._range(values, score)
            levels = quantise(values, low, high)
            scale = dict(
                score=score, min=low, max=high,
                decode='value = min + (max - min) * pixel / 65535')
            path = self.path(result.name, score)
            # The picture is written last: it is useless without its scale.
            atomic_write(self._scale_path(path), json.dumps(scale, indent=2))
            atomic_write(path, encode_picture('.png', levels))

    def _range(self, values, score):
        low, high = float(values.min()), float(values.max())
        scale = natural_range(score, len(self.settings.classes))
        # Rounding may exceed the range slightly; a larger excess means that
        # it is not the range of this map.
        slack = 1e-4
        if scale and scale[0] - slack <= low and high <= scale[1] + slack:
            return scale
        return low, high


class TiffWriter(MapWriter):
    """Writes each map as a 32-bit float TIFF."""

    format, suffix = 'tiff', '.tiff'

    def encode(self, result, score):
        """The map as the content of a ``.tiff``."""
        return encode_picture('.tiff', result.map(score).astype(np.float32))


class Hdf5Writer(Writer):
    """Writes the layout that the SegmentMeIfYouCan benchmark evaluates.

    ``anomaly_p/<method>/<dataset>/<frame>.hdf5`` with one float16 dataset
    ``value``, gzip level 9, like those of ``Evaluation.save_output`` in
    github.com/SegmentMeIfYouCan/road-anomaly-benchmark
    (``road_anomaly_benchmark/evaluation.py`` and ``datasets/dataset_io.py``).
    Use the output folder as its ``DIR_OUTPUTS``. A method of the benchmark has
    one map, so it is named ``<method>_<score>``. Names of frames have neither
    folders nor Cityscapes' ``_leftImg8bit``.
    """

    def __init__(self, settings):
        super().__init__(settings)
        try:
            import h5py  # noqa: F401
        except ImportError as error:
            raise ImportError("The format 'hdf5' needs the package h5py: "
                              'pip install h5py.') from error
        self._names = {}

    def path(self, name, score):
        """The file of one map, named as the benchmark does."""
        frame = PurePosixPath(name).name
        if frame.endswith('_leftImg8bit'):
            frame = frame[:-len('_leftImg8bit')]
        if self._names.setdefault(frame, name) != name:
            raise ValueError(
                f'{name!r} and {self._names[frame]!r} are the same frame in '
                "the flat HDF5 layout of the benchmark: export each folder "
                'to its own `dataset`.')
        method = f'{slug(self.settings.method)}_{slug(score)}'
        return (self.folder / 'anomaly_p' / method / self.settings.dataset /
                f'{frame}.hdf5')

    def paths(self, name):
        """All files of one image."""
        return [self.path(name, score) for score in self.settings.scores]

    def save(self, result):
        """Write all files of one image."""
        import h5py
        for score in self.settings.scores:
            buffer = io.BytesIO()
            with h5py.File(buffer, 'w') as file:
                file.create_dataset(
                    'value', data=result.map(score).astype(np.float16),
                    compression=9)
            atomic_write(self.path(result.name, score), buffer.getvalue())
