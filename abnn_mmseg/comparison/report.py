"""Tables of a comparison; mean and spread over seeds."""
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Optional

from abnn_mmseg.evaluation.anomaly import MEASURES

PROTOCOLS = dict(pooled='', per_image=' img')


def with_groups(rows: Sequence[dict]) -> list[dict]:
    """The rows, and for each group a row with mean and spread.

    The spread is the sample standard deviation, with n - 1.
    """
    groups: dict[tuple[str, str, str], list[dict]] = {}
    for row in rows:
        if row['group']:
            key = row['group'], row['variant'], row['dataset']
            groups.setdefault(key, []).append(row)
    return [*rows, *(_mean(*key, members) for key, members in groups.items()
                     if len(members) > 1)]


def _mean(group: str, variant: str, dataset: str,
          rows: Sequence[dict]) -> dict:
    def over(pick) -> dict[str, tuple]:
        """Mean and deviation of every number over the rows."""
        parts = [pick(row) for row in rows]
        return {
            name: (statistics.fmean(p[name] for p in parts),
                   statistics.stdev(p[name] for p in parts))
            for name in parts[0]
            if all(_is_number(p.get(name)) for p in parts)
        }

    def split(values: dict[str, tuple], which: int) -> dict:
        """Take the means (0) or the deviations (1)."""
        return {name: value[which] for name, value in values.items()}

    metrics = over(lambda row: row['metrics'])
    inference = over(lambda row: row['inference'])
    training = over(lambda row: row['training'])
    return dict(
        method=f'{group}, {len(rows)} seeds', variant=variant, group=None,
        of_group=group, keys=[row['key'] for row in rows], dataset=dataset,
        images=rows[0]['images'],
        metrics=split(metrics, 0), spread=split(metrics, 1),
        inference=split(inference, 0), training=split(training, 0),
        disk_bytes=rows[0]['disk_bytes'])


def _is_number(value) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def lines(rows: Iterable[dict], scores: Sequence[str]) -> list[dict]:
    """Lines of the table, one for each row and score; costs on the first."""
    table = []
    for row in rows:
        cell = _cells(row)
        first = {
            'method': _name(row),
            'mIoU': cell('seg/mIoU', 2), 'ECE': cell('cal/pooled/ECE', 2),
            'NLL': cell('cal/pooled/NLL', 3)
        }
        costs = {
            '+train min': _text(row['training'].get('own_seconds'), 1, 60),
            'networks': _text(row['inference'].get('networks'), 1),
            'cost': _text(row['inference']['ratio'], 1),
            'MB': _text(row['disk_bytes'], 1, 1e6)
        }
        for i, score in enumerate(scores or ('-', )):
            values = {
                name + suffix: cell(f'ood/{protocol}/{score}/{name}', 2)
                for protocol, suffix in PROTOCOLS.items() for name in MEASURES
            }
            table.append({
                **(first if i == 0 else dict.fromkeys(first, '')),
                'score': score, **values,
                **(costs if i == 0 else dict.fromkeys(costs, ''))
            })
    return table


def difference_lines(rows: Iterable[dict],
                     scores: Sequence[str]) -> list[dict]:
    """Lines of the table of differences to the reference.

    ``~`` marks a difference whose interval contains zero: it may be due to
    the choice of images.
    """
    table = []
    for row in rows:
        if 'difference' not in row:
            continue

        def cell(name: str, digits: int = 2, known=row['difference']) -> str:
            """A difference with its interval."""
            return _difference(known.get(name), digits)

        first = {
            'method': _name(row), 'mIoU': cell('seg/mIoU'),
            'ECE': cell('cal/pooled/ECE'), 'NLL': cell('cal/pooled/NLL', 3)
        }
        for i, score in enumerate(scores or ('-', )):
            table.append({
                **(first if i == 0 else dict.fromkeys(first, '')),
                'score': score, **{
                    name: cell(f'ood/pooled/{score}/{name}')
                    for name in MEASURES}
            })
    return table


def _name(row: dict) -> str:
    return row['method'] + (row['variant'] and f': {row["variant"]}')


def _difference(entry: Optional[dict], digits: int) -> str:
    if not entry or not _is_number(entry['value']):
        return '-'
    text = f'{entry["value"]:+.{digits}f}'
    if 'low' not in entry:
        return text
    low, high = entry['low'], entry['high']
    mark = ' ~' if low <= 0 <= high else ''
    return f'{text} [{low:.{digits}f}, {high:.{digits}f}]{mark}'


def _cells(row: dict):
    spread = row.get('spread', {})

    def cell(name: str, digits: int) -> str:
        """A value, with its deviation if it is a mean of seeds."""
        text = _text(row['metrics'].get(name), digits)
        if _is_number(spread.get(name)):
            text += f'±{spread[name]:.{digits}f}'
        return text

    return cell


def _text(value: Optional[float], digits: int, unit: float = 1) -> str:
    if value is None or not _is_number(value):
        return '-'
    return f'{value / unit:.{digits}f}'
