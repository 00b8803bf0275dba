"""Run the methods of a config on its datasets, and report.

::

    test_sets = dict(test=dict(), val=dict(split='val'))
    methods = [dict(name='base', config='configs/...', checkpoints=[...])]
    reference = 'base'
    figure = dict(images=3, score='entropy')
    work_dir = 'work_dirs/compare'

``test_sets`` are as in :mod:`abnn_mmseg.engine.test_sets`, ``methods`` the
arguments of :class:`Method`. All rows are compared with the ``reference``, a
method or group, by default the first method. Each row is a file in
``work_dir/rows``, named by a digest of its settings, and is computed once.
"""
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import numpy as np
from mmengine.config import Config
from mmengine.logging import MMLogger
from mmengine.registry import init_default_scope

from abnn_mmseg.comparison.figure import write_figure
from abnn_mmseg.comparison.intervals import Intervals
from abnn_mmseg.comparison.method import Method
from abnn_mmseg.comparison.report import (
    difference_lines,
    lines,
)
from abnn_mmseg.comparison.rows import Data, rows_of
from abnn_mmseg.engine.test_sets import choose_test_sets
from abnn_mmseg.engine.tester import write_metrics
from abnn_mmseg.utils.checkpoints import reading_once
from abnn_mmseg.utils.choices import one_of
from abnn_mmseg.utils.console import print_table
from abnn_mmseg.utils.files import sweep

REQUIRED = ('name', 'config', 'checkpoints')
FIGURE = dict(images=3, score='entropy')


@reading_once()
def compare(cfg: Config,
            json_file: str,
            images: Optional[int] = None,
            only: Optional[Sequence[str]] = None,
            device: Optional[str] = None) -> list[dict]:
    """Compute all rows; write JSON and figures, print tables.

    Args:
        cfg (Config): See the top of this file.
        json_file (str): Rewritten after each row. The figures are in the
            same folder.
        images (int, optional): Number of images of each dataset, evenly
            spaced. Defaults to all.
        only (Sequence[str], optional): Names of methods to run. Rows that
            earlier runs have finished are reported, too.
        device (str, optional): Defaults to a GPU if there is one.
    """
    init_default_scope(cfg.get('default_scope', 'mmseg'))
    # Hides the table that mmseg's metric logs for each row.
    MMLogger.get_instance('comparison', log_level='WARNING')
    methods = choose_methods(cfg, only)
    folder = Path(cfg.work_dir) / 'rows'
    for place in (folder, Path(json_file)):
        sweep(place)
    intervals = Intervals(folder, choose_reference(cfg))
    rows: list[dict] = []
    named: Optional[list[str]] = [] if cfg.get('test_sets') else None
    for name, test_set in choose_test_sets(cfg, named).items():
        data = Data(name, test_set, images,
                    {**FIGURE, **cfg.get('figure', {})})
        maps: dict[str, dict] = {}
        for method, is_wanted in methods.items():
            found = rows_of(method, data, folder, device, is_wanted)
            if not found:
                continue
            rows += found
            shown = method.group or method.name
            maps.setdefault(shown, _read_maps(folder, found[0]['key']))
            write_metrics(Path(json_file), dict(rows=intervals.of(rows)))
        _print_tables(
            [r for r in intervals.of(rows) if r['dataset'] == name], data,
            intervals.reference)
        write_figure(
            Path(json_file).with_name(f'{Path(json_file).stem}_{name}.png'),
            data.dataset, data.shown, maps, data.figure['score'])
    return intervals.of(rows)


def _print_tables(rows: Sequence[dict], data: Data, reference: str) -> None:
    print_table(
        f'{data.name}, {len(data.images)} images; %, NLL in nats; '
        'img: mean over images', lines(rows, data.scores))
    differences = difference_lines(rows, data.scores)
    if differences:
        print_table(
            f'{data.name}, difference to {reference!r} and its 95 % interval '
            'over images; ~: the interval contains zero', differences)


def choose_reference(cfg: Config) -> str:
    """The name of the method or group that all others are compared with."""
    known = [name for entry in cfg.methods
             for name in (entry['name'], entry.get('group')) if name]
    return one_of('reference', cfg.get('reference', known[0]), known)


def choose_methods(cfg: Config,
                   only: Optional[Sequence[str]]) -> dict[Method, bool]:
    """The methods of a config, and whether each is to be run.

    Rows of the others are reported if earlier runs have finished them.
    """
    for entry in cfg.get('methods', []):
        _check_entry(entry)
    known = [entry['name'] for entry in cfg.get('methods', [])]
    if not known:
        raise ValueError('the config has no methods; write methods = '
                         "[dict(name='base', config=..., checkpoints=[...])].")
    unknown = [name for name in only or () if name not in known]
    if unknown:
        raise ValueError(f'--only {unknown[0]!r} is not a method of the '
                         f'config; write some of {known}.')
    wanted = only or known
    return {
        Method(**entry): entry['name'] in wanted
        for entry in cfg.methods
        if entry['name'] in wanted or all(
            Path(path).is_file()
            for path in [entry['config'], *entry['checkpoints']])
    }


def _check_entry(entry: dict) -> None:
    known = [field.name for field in dataclasses.fields(Method)]
    for name in entry:
        one_of(f'key of the method {entry.get("name", "")!r}', name, known)
    for name in REQUIRED:
        if name not in entry:
            raise ValueError(
                f'the method {entry.get("name", entry)!r} has no {name}; '
                f'write {", ".join(REQUIRED)} for each.')


def _read_maps(folder: Path, key: str) -> dict:
    with np.load(folder / f'{key}.npz') as arrays:
        return dict(arrays)
