"""Test a segmentor: one or several posteriors on one or several datasets."""
import copy
import json
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Optional

from mmengine.config import Config
from mmengine.dist import is_main_process
from mmengine.registry import LOOPS
from mmseg.registry import DATASETS

from abnn_mmseg.compat import put_test_loop
from abnn_mmseg.engine.launch import join_on_cpu
from abnn_mmseg.engine.loading import (
    Paths,
    another_posterior,
    build_posterior,
    build_segmentor,
    split_checkpoints,
)
from abnn_mmseg.engine.runners import AtomicRunner
from abnn_mmseg.engine.test_sets import (
    TestSet,
    choose_posteriors,
    choose_test_sets,
    own_test,
)
from abnn_mmseg.utils.checkpoints import reading_once
from abnn_mmseg.utils.files import atomic_write

GROUPS = dict(
    seg='Segmentation in % (pooled, in-distribution pixels)',
    cal='Calibration (ECE and MCE in %)',
    ood='Anomaly detection in %',
    sel='Selective prediction in %',
    risk='Guarantees, measured and promised')
Metrics = dict[str, float]
Results = dict[str, dict[str, Metrics]]


def test(cfg: Config,
         checkpoints: Paths,
         plot_dir: Optional[str] = None) -> Metrics:
    """Metrics of ``test_evaluator`` on ``test_dataloader``.

    They are also written to ``metrics.json`` in the work folder, with NaN as
    null. mmseg's own metrics get the prefix ``seg/``.

    Args:
        cfg (Config): Any mmseg config.
        checkpoints (str | Sequence[str]): See :func:`build_segmentor`.
        plot_dir (str, optional): Folder for the curves.
    """
    metrics = Tester(cfg, checkpoints).evaluate(own_test(cfg), plot_dir)
    save(cfg, metrics)
    return metrics


@reading_once()
def test_all(cfg: Config,
             checkpoints: Paths,
             datasets: Optional[Sequence[str]] = None,
             posteriors: Optional[Sequence[str]] = None,
             plot_dir: Optional[str] = None) -> Results:
    """Metrics of every posterior on every dataset, by these two names.

    The model is built and loaded once. ``metrics.json`` is written after each
    dataset; curves go to ``plot_dir/<posterior>/<dataset>``.

    Args:
        cfg (Config): May have ``test_sets`` and ``posteriors``, see
            :mod:`abnn_mmseg.engine.test_sets`.
        checkpoints (str | Sequence[str]): See :func:`build_segmentor`.
        datasets (Sequence[str], optional): Names in ``test_sets``, or config
            files of datasets; empty for all of ``test_sets``. None is the
            test dataset alone.
        posteriors (Sequence[str], optional): Names in ``posteriors``; empty
            for all. None is the model's own alone.
        plot_dir (str, optional): Folder for the curves.
    """
    test_sets = choose_test_sets(cfg, datasets)
    tester = Tester(cfg, checkpoints)
    chosen = choose_posteriors(tester.cfg, posteriors)
    for test_set in test_sets.values():
        # Fail early if data is missing.
        DATASETS.build(test_set.dataloader.dataset)
    results: Results = {}
    for posterior, posterior_cfg in chosen.items():
        results[posterior] = {}
        with tester.posterior(posterior_cfg):
            for name, test_set in test_sets.items():
                folder = plot_dir and f'{plot_dir}/{posterior}/{name}'
                results[posterior][name] = tester.evaluate(test_set, folder)
                save(cfg, results)
    return results


class Tester:
    """A loaded segmentor and the runner that tests it.

    Args:
        cfg (Config): Its ``model`` and runtime settings.
        checkpoints (str | Sequence[str]): See :func:`build_segmentor`.
        device (str, optional): Defaults to a GPU if there is one.
    """

    def __init__(self, cfg: Config, checkpoints: Paths,
                 device: Optional[str] = None) -> None:
        self.cfg = cfg = copy.deepcopy(cfg)
        join_on_cpu(cfg)
        full, self.members = split_checkpoints(checkpoints)
        self.model = build_segmentor(cfg, checkpoints)
        # Files given here replace those that the config names.
        if len(full) > 1:
            cfg.model.posterior.checkpoints = [str(path) for path in full]
        if self.members:
            cfg.model.posterior.members = [str(m) for m in self.members]
        self.runner = AtomicRunner(
            model=self.model,
            work_dir=cfg.work_dir,
            default_hooks=cfg.get('default_hooks'),
            custom_hooks=[
                *cfg.get('custom_hooks', []),
                dict(type='AuditHook')
            ],
            launcher=cfg.get('launcher', 'none'),
            env_cfg=cfg.get('env_cfg', dict(dist_cfg=dict(backend='nccl'))),
            log_processor=cfg.get('log_processor'),
            log_level=cfg.get('log_level', 'INFO'),
            visualizer=cfg.get('visualizer'),
            default_scope=cfg.get('default_scope', 'mmseg'),
            experiment_name=f'test_{time.time_ns()}',
            cfg=cfg)
        if device is not None:
            # The runner has moved the model to a device of its choice.
            self.model.to(device)

    def posterior(self, cfg: dict):
        """A context in which the model answers with another posterior."""
        return another_posterior(
            self.model, build_posterior(self.model, cfg, self.members))

    def evaluate(self,
                 test_set: TestSet,
                 plot_dir: Optional[str] = None) -> Metrics:
        """Metrics of the current posterior on a test set, by group."""
        return grouped(self.run(
            test_set.dataloader, test_set.with_plots(plot_dir)))

    def run(self, dataloader: Any, evaluator: Any) -> Metrics:
        """Run the test loop of the config.

        Args:
            dataloader (DataLoader | dict): The images, or their config.
            evaluator (Evaluator | list): The metrics, or their configs.
        """
        put_test_loop(self.runner, LOOPS.build(
            self.cfg.get('test_cfg') or dict(type='TestLoop'),
            default_args=dict(runner=self.runner, dataloader=dataloader,
                              evaluator=evaluator)))
        return self.runner.test()


def grouped(metrics: Metrics) -> Metrics:
    """Add the prefix ``seg/`` to keys without a group."""
    return {
        key if key.split('/')[0] in GROUPS else f'seg/{key}': float(value)
        for key, value in metrics.items()
    }


def save(cfg: Config, metrics: dict) -> None:
    """Write ``metrics.json`` in the work folder."""
    if is_main_process():
        write_metrics(Path(cfg.work_dir) / 'metrics.json', metrics)


def write_metrics(path: Path, metrics: dict) -> None:
    """Write metrics as JSON, with null for NaN."""

    def clean(value):
        """Replace every NaN or inf, at any depth, by None."""
        if isinstance(value, dict):
            return {k: clean(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [clean(v) for v in value]
        missing = isinstance(value, float) and not math.isfinite(value)
        return None if missing else value

    atomic_write(path, json.dumps(clean(metrics), indent=2) + '\n')


def labelled(results: Results) -> Iterator[tuple[dict, Metrics]]:
    """Yield the columns posterior and dataset, and the metrics of both."""
    for posterior, by_dataset in results.items():
        for dataset, metrics in by_dataset.items():
            yield dict(posterior=posterior, dataset=dataset), metrics


def tables(results: Iterable[tuple[dict, Metrics]]):
    """Yield the title and the rows of a table for each group.

    Args:
        results (Iterable[tuple]): Metrics, each with the columns to put
            before them. Rows without any number are left out.
    """
    results = list(results)
    for group, title in GROUPS.items():
        rows = [
            row for columns, metrics in results
            for row in _rows(group, columns, metrics)
        ]
        if rows:
            yield title, rows


def _rows(group: str, columns: dict, metrics: Metrics) -> Iterator[dict]:
    rows: dict[str, dict] = {}
    for name, value in metrics.items():
        head, *path, metric = name.split('/')
        if head == group:
            rows.setdefault(' '.join(path), {})[metric] = value
    for where, row in rows.items():
        if not all(math.isnan(value) for value in row.values()):
            protocol = {'protocol, score': where} if where else {}
            yield {**columns, **protocol, **row}
