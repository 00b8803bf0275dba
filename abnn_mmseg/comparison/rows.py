"""Rows of a comparison, each in a file named by a digest of its settings."""
import hashlib
import itertools
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Optional
from zipfile import BadZipFile

import numpy as np
from mmengine import fileio
from mmengine.evaluator import BaseMetric
from mmseg.registry import DATASETS

from abnn_mmseg.comparison.evaluation import Evaluation
from abnn_mmseg.comparison.figure import choose_images
from abnn_mmseg.comparison.intervals import statistics_file
from abnn_mmseg.comparison.method import Method
from abnn_mmseg.engine.test_sets import TestSet
from abnn_mmseg.engine.tester import write_metrics
from abnn_mmseg.evaluation.image_statistics import image_statistics
from abnn_mmseg.uncertainty.scores import check_scores
from abnn_mmseg.utils.choices import evenly_spaced
from abnn_mmseg.utils.files import atomic_path


class Data:
    """A dataset, its metrics, and the images of the figure.

    Args:
        name (str): Name in the rows.
        test_set (TestSet): The dataset and the metrics.
        images (int, optional): Number of images, evenly spaced. Defaults to
            all.
        figure (dict): ``images``, how many to show, and ``score``, the maps.
    """

    def __init__(self, name: str, test_set: TestSet, images: Optional[int],
                 figure: dict) -> None:
        self.name = name
        self.metrics = list(test_set.evaluator)
        self.cfg = test_set.dataloader.dataset
        self.dataset = DATASETS.build(self.cfg)
        self.images = evenly_spaced(len(self.dataset), images)
        self.figure = figure
        self.shown = choose_images(self.dataset, self.images,
                                   figure['images'])
        self.scores = next(
            (check_scores(m.get('scores', 'entropy'))
             for m in self.metrics if m['type'] == 'AnomalyMetric'), ())
        measured = [check_scores(m.get('scores', ())) for m in self.metrics]
        self.maps = tuple(dict.fromkeys(
            itertools.chain(check_scores(figure['score']), *measured)))

    def settings(self) -> dict:
        """Everything of the data that a row depends on."""
        return dict(dataset=self.cfg.to_dict(), images=self.images,
                    files=self.fingerprint,
                    metrics=[dict(metric) for metric in self.metrics])

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the content of all files of the images.

        Dates are left out, so rows stay valid for a copy of the data.
        """
        sha = hashlib.sha256()
        backend_args = self.cfg.get('backend_args')
        for number in self.images:
            info = self.dataset.get_data_info(number)
            for name in sorted(k for k in info if k.endswith('_path')):
                if isinstance(info[name], str):
                    content = fileio.get(info[name], backend_args)
                    sha.update(hashlib.sha256(content).digest())
        return sha.hexdigest()[:16]


def rows_of(method: Method, data: Data, folder: Path,
            device: Optional[str] = None,
            is_wanted: bool = True) -> list[dict]:
    """The rows of a method; missing rows are computed if wanted."""
    keys = {
        variant: key_of(method.settings(variant), data.settings())
        for variant in method.variants
    }
    missing = {variant: method.variants[variant]
               for variant, key in keys.items()
               if not _is_finished(folder, key)}
    if missing and not is_wanted:
        return []
    if missing:
        # The name depends on finished rows, too, so that a run that was
        # killed while writing rows finds its state.
        state = folder / f'{key_of(keys, "networks")}.unfinished.pth'
        _evaluate(method, data, {v: keys[v] for v in missing}, state, device)
    rows = []
    for variant, key in keys.items():
        row = json.loads((folder / f'{key}.json').read_text())
        # Names are not part of the key, so renaming keeps the rows.
        rows.append(dict(
            method=method.name, variant=variant, group=method.group,
            dataset=data.name, **row, training=method.training(),
            disk_bytes=method.disk_bytes()))
    return rows


def _is_finished(folder: Path, key: str) -> bool:
    """Whether all files of a row can be read; a truncated one is not."""
    try:
        json.loads((folder / f'{key}.json').read_text())
        for path in (folder / f'{key}.npz', *folder.glob(f'{key}.*.npz')):
            with np.load(path):
                pass
    except (OSError, ValueError, EOFError, BadZipFile):
        return False
    return True


def _evaluate(method: Method, data: Data, keys: dict[str, str], state: Path,
              device: Optional[str]) -> None:
    tester = method.tester(str(state.parent.parent / 'logs'), device)
    tester.model.scores = data.maps
    evaluation = Evaluation(
        tester, {v: method.variants[v] for v in keys}, data.dataset,
        [*data.metrics, dict(type='ImageStatisticsMetric',
                             scores=data.scores)],
        data.images, data.shown, data.figure['score'], state)
    results = evaluation.run(f'{method.name} on {data.name}')
    for variant, key in keys.items():
        with atomic_path(state.with_name(f'{key}.npz')) as temporary:
            np.savez_compressed(temporary, **evaluation.arrays(
                variant))  # type: ignore[arg-type]
        _write_statistics(evaluation.evaluator.parts[variant].metrics,
                          statistics_file(state.parent, key))
        write_metrics(state.with_name(f'{key}.json'), dict(
            key=key, images=len(data.images), **results[variant]))
    evaluation.forget()


def _write_statistics(metrics: Sequence[BaseMetric], path: Path) -> None:
    arrays = image_statistics(metrics)
    if arrays:
        with atomic_path(path) as temporary:
            np.savez_compressed(
                temporary, **arrays)  # type: ignore[arg-type]


def key_of(*settings) -> str:
    """A digest of settings, for file names."""
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
