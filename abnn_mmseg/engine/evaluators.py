"""Metrics of a config, and those that its data has labels for."""
from mmengine.config import Config, ConfigDict
from mmseg.registry import DATASETS

from abnn_mmseg.datasets import AnomalySegDataset
from abnn_mmseg.datasets.check import leaf_datasets
from abnn_mmseg.uncertainty import DEFAULT_SCORES

IOU = dict(type='IoUMetric', iou_metrics=['mIoU'])
CALIBRATION = dict(type='CalibrationMetric', protocols=['pooled'])
SELECTIVE = dict(type='SelectiveMetric', scores=['msp', 'entropy'])
ANOMALY = dict(
    type='AnomalyMetric', scores=['msp', 'entropy', 'mutual_information'])
OURS = ('AnomalyMetric', 'CalibrationMetric', 'SelectiveMetric')


def test_evaluators(cfg: Config) -> list[ConfigDict]:
    """The test metrics of a config.

    If it names no metric of this package, those that its labels allow are
    added.
    """
    own = own_evaluators(cfg, 'test')
    if any(metric['type'] in OURS for metric in own) or (
            not is_labelled(cfg, 'test')):
        return own
    scores = (cfg.get('model') or {}).get('scores') or DEFAULT_SCORES
    metrics = missing_evaluators(cfg, 'test')
    for metric in metrics:
        if 'scores' in metric:
            metric.scores = [
                s for s in metric.scores if s in scores] or [scores[0]]
    return own + metrics


def own_evaluators(cfg: Config, split: str) -> list[ConfigDict]:
    """The metrics that a config names for a split, as a list."""
    own = cfg.get(f'{split}_evaluator') or []
    return [own] if isinstance(own, dict) else list(own)


def missing_evaluators(cfg: Config, split: str) -> list[ConfigDict]:
    """Metrics that the labels allow and the config does not name."""
    metrics: list[dict] = [IOU, CALIBRATION]
    if split == 'test':
        metrics.append(SELECTIVE)
        if has_unknown(cfg):
            metrics.append(ANOMALY)
    known = {metric['type'].rpartition('.')[2]
             for metric in own_evaluators(cfg, split)}
    return [ConfigDict(m) for m in metrics if m['type'] not in known]


def is_labelled(cfg: Config, split: str) -> bool:
    """Whether a split has labels to evaluate."""
    own = own_evaluators(cfg, split)
    return not any(metric.get('format_only') for metric in own) and any(
        'Annotation' in str(step.get('type'))
        for step in pipeline_of(cfg, split))


def has_unknown(cfg: Config) -> bool:
    """Whether the test data has labels of OOD pixels."""
    kind = DATASETS.get(_dataset(cfg, 'test').get('type', ''))
    return kind is not None and issubclass(kind, AnomalySegDataset)


def pipeline_of(cfg: Config, split: str) -> list:
    """The transforms of a split."""
    return list(_dataset(cfg, split).get('pipeline') or [])


def _dataset(cfg: Config, split: str) -> dict:
    """The first dataset of a loader, without wrappers."""
    loader = cfg.get(f'{split}_dataloader') or {}
    return next(leaf_datasets(loader.get('dataset') or {}))
