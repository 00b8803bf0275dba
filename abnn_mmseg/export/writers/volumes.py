"""Write NIfTI volumes of the maps of their slices."""
import gzip
import io
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from abnn_mmseg.export.volumes import header_of
from abnn_mmseg.export.writers.base import MapWriter
from abnn_mmseg.export.writers.settings import slug
from abnn_mmseg.utils import atomic_write
from abnn_mmseg.utils.files import atomic_path

PREDICTION = 'prediction'
# The class of voxels whose slice was not predicted.
NO_CLASS = 255


class NiftiWriter(MapWriter):
    """``nifti/<map>/<volume>.nii.gz`` of ``nifti/<map>/slices``.

    Volumes have the paths of the input's. They are made at the end, one slice
    after the other, of the slices of all processes and runs. Slices that were
    not predicted are NaN, or 255 in the class map
    ``nifti/prediction/<volume>.nii.gz``.
    """

    format, suffix = 'nifti', '.npy'

    def path(self, name, score):
        """The file of one slice."""
        folder = self.folder / self.format / slug(score) / 'slices'
        return folder / f'{name}{self.suffix}'

    def paths(self, name):
        """The files of one slice: all maps, and the prediction."""
        return [*super().paths(name), self.path(name, PREDICTION)]

    def save(self, result):
        """Write the files of one slice."""
        volume, _, number = result.name.rpartition('_')
        if volume not in self.settings.volumes or not number.isdigit():
            raise ValueError(
                f"{result.name!r} is not a slice of a volume; the format "
                "'nifti' needs .nii or .nii.gz as input.")
        super().save(result)
        atomic_write(self.path(result.name, PREDICTION), _npy(
            result.prediction.astype(self._id_type)))

    def encode(self, result, score):
        """The map of one slice as the content of a ``.npy``."""
        return _npy(result.map(score).astype(np.float32))

    @property
    def _id_type(self) -> type:
        few = len(self.settings.classes) <= NO_CLASS
        return np.uint8 if few else np.uint16

    def clear(self, names):
        """Remove the slices, and the volumes made of them."""
        super().clear(names)
        for path in (self.folder / self.format).rglob('*.nii.gz'):
            path.unlink()

    def close(self):
        """Make the volumes, on the first process."""
        if self.settings.rank != 0:
            return
        planes: dict[str, DTypeLike] = dict.fromkeys(
            self.settings.scores, np.float32)
        planes[PREDICTION] = self._id_type
        for name, source in self.settings.volumes.items():
            for plane, dtype in planes.items():
                self._join(name, plane, Path(source), dtype)

    def _join(self, name: str, plane: str, source: Path,
              dtype: DTypeLike) -> None:
        image = header_of(source)
        width, height, count = image.shape[:3]
        slices = [self.path(f'{name}_{number:06d}', plane)
                  for number in range(count)]
        if not any(path.exists() for path in slices):
            return
        header = image.header.copy()
        header.set_data_shape((width, height, count))
        header.set_data_dtype(dtype)
        header.set_slope_inter(1, 0)
        header['cal_min'] = header['cal_max'] = 0
        header.set_data_offset(0)  # computed anew
        header.extensions.clear()
        order = header.get_data_dtype()
        empty = np.full((height, width), NO_CLASS if plane == PREDICTION
                        else np.nan, order)
        path = slices[0].parents[len(Path(name).parts)] / f'{name}.nii.gz'
        with atomic_path(path) as temporary, open(temporary, 'wb') as file, (
                gzip.GzipFile('', 'wb', 1, file, mtime=0)) as volume:
            header.write_to(volume)
            volume.write(bytes(header.get_data_offset() - volume.tell()))
            for each in slices:
                values = np.load(each) if each.exists() else empty
                # The first axis of a volume varies fastest.
                volume.write(values.astype(order).tobytes())


def _npy(values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()
