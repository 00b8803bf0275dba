"""Write label sets and alarms that have a guarantee."""
import io
from pathlib import Path

import numpy as np

from abnn_mmseg.export.result import MapResult
from abnn_mmseg.export.writers.arrays import encode_picture
from abnn_mmseg.export.writers.base import Writer
from abnn_mmseg.export.writers.settings import WriterSettings
from abnn_mmseg.uncertainty.guarantees import ALARM_RISKS, SET_RISKS
from abnn_mmseg.utils import atomic_write


class GuaranteedWriter(Writer):
    """One file per guarantee: ``<folder>/<format>/<risk>/<name><suffix>``."""

    format: str
    suffix: str
    risks: tuple[str, ...]

    def __init__(self, settings: WriterSettings) -> None:
        super().__init__(settings)
        self.found = [risk for risk in self.risks
                      if risk in (settings.guarantees or {})]
        if not self.found:
            raise ValueError(
                f'The format {self.format!r} needs a guarantee that holds '
                'for the model and its settings: make one with `abnn certify '
                f'CONFIG BASE MEMBERS --risk {self.risks[0]} --level 0.05`.')

    def path(self, name: str, risk: str) -> Path:
        """The file of one guarantee."""
        return self.folder / self.format / risk / f'{name}{self.suffix}'

    def paths(self, name: str) -> list[Path]:
        """One file per guarantee."""
        return [self.path(name, risk) for risk in self.found]

    def save(self, result: MapResult) -> None:
        """Write the file of each guarantee."""
        for risk in self.found:
            atomic_write(self.path(result.name, risk),
                         self.encode(result.guaranteed[risk]))

    def encode(self, plane: np.ndarray) -> bytes:
        """The content of the file."""
        raise NotImplementedError


class LabelSetWriter(GuaranteedWriter):
    """A compressed archive: ``label_set``, bool ``[C, H, W]``."""

    format, suffix, risks = 'label-set', '.npz', SET_RISKS

    def encode(self, plane):
        """The sets as a compressed archive."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, label_set=plane)
        return buffer.getvalue()


class SetSizeWriter(GuaranteedWriter):
    """An 8-bit PNG: how many classes the set of each pixel holds."""

    format, suffix, risks = 'set-size', '.png', SET_RISKS

    def encode(self, plane):
        """The number of classes as a PNG."""
        return encode_picture('.png', plane.sum(0).clip(0, 255).astype(
            np.uint8))


class AlarmWriter(GuaranteedWriter):
    """A black and white PNG: white where the alarm is raised."""

    format, suffix, risks = 'alarm', '.png', ALARM_RISKS

    def encode(self, plane):
        """The alarm as a PNG."""
        return encode_picture('.png', plane.astype(np.uint8) * 255)
