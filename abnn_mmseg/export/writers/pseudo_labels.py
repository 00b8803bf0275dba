"""Write predictions without uncertain pixels, as labels for training."""
import json

import numpy as np

from abnn_mmseg.evaluation.fields import IGNORE
from abnn_mmseg.export.writers.arrays import encode_picture
from abnn_mmseg.export.writers.journal import JournalWriter, csv_of
from abnn_mmseg.export.writers.settings import slug
from abnn_mmseg.utils import atomic_write
from abnn_mmseg.utils.colours import byte_ids

# The score whose mean is the error rate that the model expects.
EXPECTED = 'msp'
COLUMNS = ('image', 'kept', 'expected_risk', 'risk')


class PseudoLabelWriter(JournalWriter):
    """Class ids as 8-bit PNG, 255 where the model is not certain.

    ``pseudo-labels/<map>/<name>.png`` keeps the share ``keep`` of the pixels
    of every image, those with the lowest scores, or without ``keep`` the
    pixels below the threshold. ``pseudo-labels/<map>.csv`` has the share that
    was kept of each image, ``pseudo-labels/<map>.json`` that of the set. Both
    have the risk of the kept pixels in percent: ``expected_risk`` of the model
    (mean of ``msp``, if that is among the maps) and ``risk`` by the ground
    truth, if there is one.
    """

    format = 'pseudo-labels'

    def __init__(self, settings):
        super().__init__(settings)
        if settings.keep is None:
            settings.require_thresholds(self.format, 'give --keep 0.9')
        if len(settings.classes) > IGNORE:
            raise ValueError(
                f'pseudo-labels have 8 bits and {IGNORE} for uncertain '
                f'pixels, but the model has {len(settings.classes)} classes.')

    def tables(self):
        """The files of the whole set."""
        return [self._folder / f'{slug(score)}{suffix}'
                for score in self.settings.scores
                for suffix in ('.csv', '.json')]

    def paths(self, name):
        """The files of one image."""
        return [self._folder / slug(score) / f'{name}.png'
                for score in self.settings.scores]

    def rows_of(self, result):
        """The rows of one image in the journal."""
        rows = {}
        for score, path in zip(self.settings.scores, self.paths(result.name)):
            kept = self._kept(result.map(score), score)
            labels = byte_ids(result.prediction, result.name)
            picture = np.where(kept, labels, np.uint8(IGNORE))
            atomic_write(path, encode_picture('.png', picture))
            rows[score] = _counts(result, kept)
        return rows

    def _kept(self, values: np.ndarray, score: str) -> np.ndarray:
        keep = self.settings.keep
        if keep is None:
            return values < self.settings.given_threshold(score)
        count = int(round(keep * values.size))
        if count == 0:
            return np.zeros(values.shape, bool)
        # Pixels of equal scores are all kept.
        return values <= np.partition(values, count - 1, None)[count - 1]

    def join(self, rows):
        """Write the files of the whole set from all rows."""
        for i, score in enumerate(self.settings.scores):
            counts = {name: rows[name][score] for name in sorted(rows)}
            csv_path, json_path = self.tables()[2 * i:2 * i + 2]
            atomic_write(csv_path, csv_of(COLUMNS, (
                dict(_percent([count]), image=name)
                for name, count in counts.items())))
            atomic_write(json_path, json.dumps(dict(
                images=len(counts), keep=self.settings.keep,
                threshold=(None if self.settings.keep is not None else
                           self.settings.given_threshold(score)),
                **_percent(list(counts.values()))), indent=2))


def _counts(result, kept: np.ndarray) -> dict:
    """Pixels, and sums over those that were kept."""
    row: dict = dict(pixels=kept.size, kept=int(kept.sum()))
    if EXPECTED in result.maps:
        row['expected'] = float(
            result.maps[EXPECTED][kept].sum(dtype=np.float64))
    truth = result.ground_truth
    if truth is not None:
        known = kept & (truth != IGNORE)
        row['known'] = int(known.sum())
        row['wrong'] = int((result.prediction != truth)[known].sum())
    return row


def _percent(rows: list[dict]) -> dict:
    """Shares in percent, over all images that have the numbers."""
    def share(part: str, whole: str):
        """Sum of the part over sum of the whole, in percent."""
        have = [row for row in rows if part in row]
        total = sum(row[whole] for row in have)
        return round(100 * sum(row[part] for row in have) / total,
                     4) if total else None

    return dict(kept=share('kept', 'pixels'),
                expected_risk=share('expected', 'kept'),
                risk=share('wrong', 'known'))
