"""Test a segmentor on the dataset of its config."""
import copy
import json
import math
import time
from pathlib import Path
from typing import Dict, Optional

from mmengine.config import Config
from mmengine.dist import is_main_process
from mmengine.runner import Runner

from ..utils.files import atomic_write
from .loading import Paths, build_segmentor, distribute_on_cpu

GROUPS = dict(
    seg='Segmentation, in-distribution pixels',
    cal='Calibration',
    ood='Anomaly detection',
    sel='Selective prediction')


def test(cfg: Config,
         checkpoints: Paths,
         plot_dir: Optional[str] = None) -> Dict[str, float]:
    """Metrics of ``test_evaluator`` on ``test_dataloader``.

    Also written to ``metrics.json`` in the work folder, with NaN as null.
    mmseg's own metrics get the prefix ``seg/``.
    """
    cfg = copy.deepcopy(cfg)
    distribute_on_cpu(cfg)
    for metric in cfg.test_evaluator:
        if plot_dir and metric.type in ('AnomalyMetric', 'CalibrationMetric',
                                        'SelectiveMetric'):
            metric.plot_dir = plot_dir
    model = build_segmentor(cfg, checkpoints)
    runner = Runner(
        model=model,
        work_dir=cfg.work_dir,
        test_dataloader=cfg.test_dataloader,
        test_cfg=cfg.test_cfg,
        test_evaluator=cfg.test_evaluator,
        default_hooks=cfg.get('default_hooks'),
        custom_hooks=[*cfg.get('custom_hooks', []), dict(type='AuditHook')],
        launcher=cfg.get('launcher', 'none'),
        env_cfg=cfg.get('env_cfg', dict(dist_cfg=dict(backend='nccl'))),
        log_processor=cfg.get('log_processor'),
        log_level=cfg.get('log_level', 'INFO'),
        visualizer=cfg.get('visualizer'),
        default_scope=cfg.get('default_scope', 'mmseg'),
        experiment_name=f'test_{time.time_ns()}',
        cfg=cfg)
    metrics = grouped(runner.test())
    if is_main_process():
        write_metrics(Path(cfg.work_dir) / 'metrics.json', metrics)
    return metrics


def grouped(metrics: Dict[str, float]) -> Dict[str, float]:
    """Every key under its group."""
    return {
        key if key.split('/')[0] in GROUPS else f'seg/{key}': float(value)
        for key, value in metrics.items()
    }


def write_metrics(path: Path, metrics: dict) -> None:
    """As JSON, which knows no NaN."""

    def clean(value):
        if isinstance(value, dict):
            return {k: clean(v) for k, v in value.items()}
        missing = isinstance(value, float) and not math.isfinite(value)
        return None if missing else value

    atomic_write(path, json.dumps(clean(metrics), indent=2) + '\n')


def tables(metrics: Dict[str, float]):
    """Yield a title and rows for each group, for people."""
    for group, title in GROUPS.items():
        names = [k for k in metrics if k.startswith(f'{group}/')]
        if not names:
            continue
        rows: Dict[str, dict] = {}
        for name in names:
            *where, metric = name.split('/')[1:]
            row = rows.setdefault(' '.join(where), {})
            row[metric] = metrics[name]
        yield title, [
            dict({'protocol, score': where} if where else {}, **row)
            for where, row in rows.items()
        ]
