"""Write a CSV of all images, the most uncertain first."""
import numpy as np

from abnn_mmseg.export.writers.journal import JournalWriter, csv_of
from abnn_mmseg.export.writers.settings import slug
from abnn_mmseg.utils import atomic_write

COLUMNS = ('rank', 'image', 'mean', 'p95', 'max', 'share_above', 'threshold')


def summary(values: np.ndarray, threshold=None) -> dict:
    """Mean, 95th percentile, maximum and share above the threshold."""
    row = dict(mean=float(values.mean(dtype=np.float64)),
               p95=float(np.percentile(values, 95)),
               max=float(values.max()))
    if threshold is not None:
        row.update(share_above=float((values >= threshold).mean()),
                   threshold=threshold)
    return {key: float(f'{value:.6g}') for key, value in row.items()}


class CsvWriter(JournalWriter):
    """``csv/<map>.csv``, the most uncertain image (by mean) first."""

    format = 'csv'

    def tables(self):
        """The files of the whole set."""
        return list(map(self._table, self.settings.scores))

    def _table(self, score):
        return self._folder / f'{slug(score)}.csv'

    def rows_of(self, result):
        """The rows of one image in the journal."""
        return {
            score: summary(result.map(score),
                           self.settings.threshold_of(score))
            for score in self.settings.scores}

    def join(self, rows):
        """Write the tables from all rows, the highest mean first."""
        for score in self.settings.scores:
            atomic_write(self._table(score), _csv(rows, score))


def _csv(rows, score):
    # Equal means are sorted by name, so the order of runs does not matter.
    order = sorted(rows, key=lambda name: (-rows[name][score]['mean'], name))
    return csv_of(COLUMNS, (
        dict(rank=rank, image=name, **rows[name][score])
        for rank, name in enumerate(order, 1)))
