"""Search settings on validation images: train, test and log each trial.

::

    search = dict(
        members=2, images=24,
        train=[{'train_cfg.max_iters': [0]},
               {'train_cfg.max_iters': [60, 120],
                'optim_wrapper.optimizer.lr': [1e-3, 4e-3]}],
        test=[{'model.posterior.alpha': [0.1, 0.2]}])

Each entry of ``train`` and ``test`` is a grid: all combinations of its values
are tried, as overrides of the config. Every training is tested with every
combination of ``test``, so settings of the test (alpha, scope, draws, score)
need no training of their own. With 0 iterations the draws are of the base.
"""
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Optional

from mmengine.config import Config
from mmengine.logging import MMLogger
from mmengine.registry import init_default_scope

from abnn_mmseg.comparison.method import Method, digest
from abnn_mmseg.comparison.rows import Data, key_of, rows_of
from abnn_mmseg.engine import train
from abnn_mmseg.engine.test_sets import TestSet
from abnn_mmseg.evaluation.anomaly import MEASURES
from abnn_mmseg.uncertainty import SCORES
from abnn_mmseg.utils.checkpoints import reading_once
from abnn_mmseg.utils.configs import find_config
from abnn_mmseg.utils.files import append_line, read_lines

VARIANTS = {
    'posterior mean': dict(prediction='posterior_mean'),
    'centre': dict(prediction='centre')
}
METRICS = [
    dict(type='IoUMetric', iou_metrics=['mIoU']),
    dict(type='CalibrationMetric', protocols=('pooled', )),
    dict(type='AnomalyMetric', protocols=('pooled', ),
         scores=tuple(SCORES)),
]
# Parts of a config that members depend on.
TRAINING = ('model', 'optim_wrapper', 'param_scheduler', 'train_cfg',
            'train_dataloader', 'custom_hooks', 'randomness')
# The largest loss of mIoU and rise of ECE of a setting, in points.
MIOU_LOSS, ECE_GAIN = 0.5, 1.


class Search:
    """Runs all trials of a config and logs each.

    Args:
        config (str): Config file with ``search``, over an ABNN config.
        log (str): File of JSON lines; a finished trial is not added again.
        options (dict, optional): Overrides of the config.
        images (int, optional): Overrides ``search.images``.
        device (str, optional): Device of the tests.
    """

    def __init__(self, config: str, log: str, options: Optional[dict] = None,
                 images: Optional[int] = None,
                 device: Optional[str] = None) -> None:
        self.config = find_config(config)
        self.log = Path(log)
        self.options = dict(options or {})
        self.device = device
        self.cfg = self._configured({})
        init_default_scope(self.cfg.get('default_scope', 'mmseg'))
        MMLogger.get_instance('search', log_level='WARNING')
        if 'train' not in self.cfg.get('search', {}):
            raise ValueError(f'{config} has no search.train; write search = '
                             "dict(train=[{...}], test=[{...}]).")
        self.search = self.cfg.search
        self.base = str(self.cfg.load_from)
        self.folder = Path(self.cfg.work_dir)
        self.data = Data(
            'val', TestSet(self.cfg.val_dataloader, METRICS),
            images or self.search.get('images'),
            dict(images=0, score='entropy'))

    def _configured(self, options: dict) -> Config:
        cfg = Config.fromfile(self.config)
        cfg.merge_from_dict(self.options)
        if 'max_iters' not in cfg.get('train_cfg', {}):
            raise ValueError(f'{self.config} does not train by iterations; '
                             'write train_cfg = dict(max_iters=...).')
        end = cfg.train_cfg.max_iters
        cfg.merge_from_dict(options)
        schedulers = cfg.get('param_scheduler') or []
        for scheduler in (
                [schedulers] if isinstance(schedulers, dict) else schedulers):
            # A decay lasts for the whole training; a warm-up is shorter.
            if scheduler.get('end', 0) >= end:
                scheduler['end'] = max(1, cfg.train_cfg.max_iters)
        return cfg

    @reading_once()
    def run(self) -> list[dict]:
        """All trials, the deterministic base first."""
        logs = [self.log] if self.log.is_file() else []
        trials = {trial['key']: trial for trial in read_lines(logs)}
        settings = list(combinations(self.search.train))
        tests = list(combinations(self.search.get('test', [{}])))
        base = Method('base', self.config, [self.base],
                      dict(type='DeterministicPosterior'), self.options)
        found = [self._logged(trials, base, {}, {})]
        for i, trained in enumerate(settings):
            print(f'Training {i + 1} of {len(settings)}: {_short(trained)}')
            files = [self.base, *self.members(trained)]
            for tested in tests:
                changes = {**trained, **tested}
                method = Method(
                    ' '.join(f'{k}={v}' for k, v in _short(changes).items()),
                    self.config, files, options={**self.options, **changes},
                    variants=VARIANTS)
                found.append(self._logged(trials, method, trained, tested))
        return list(itertools.chain(*found))

    def members(self, options: dict) -> list[str]:
        """The member file of a training, which is run if it is missing."""
        cfg = self._configured(options)
        if cfg.train_cfg.max_iters == 0:
            return []
        count = self.search.get('members', cfg.train_cfg.get('members', 3))
        key = key_of(digest(self.base), count,
                     {name: cfg.get(name) for name in TRAINING})
        cfg.work_dir = str(self.folder / 'trainings' / key)
        path = Path(cfg.work_dir) / 'members.pth'
        if not path.is_file():
            cfg.resume, cfg.validate_members = True, False
            cfg.log_level = 'WARNING'
            train(cfg, count)
        return [str(path)]

    def _logged(self, known: dict[str, dict], method: Method, trained: dict,
                tested: dict) -> list[dict]:
        trials = []
        for row in rows_of(method, self.data, self.folder / 'rows',
                           self.device):
            trial = dict(
                train=trained, test=tested,
                **{k: row[k] for k in (
                    'key', 'variant', 'images', 'networks', 'metrics',
                    'inference', 'training')})
            if trial['key'] not in known:
                append_line(self.log, json.dumps(trial))
            trials.append(trial)
        return trials


def combinations(grids: Sequence[dict[str, Sequence]]) -> Iterator[dict]:
    """Every combination of the values of each grid."""
    for grid in grids:
        for name, values in grid.items():
            if not isinstance(values, (list, tuple)):
                raise ValueError(f'{name}={values!r} of search is not a list '
                                 f'of values to try; write [{values!r}].')
        for values in itertools.product(*grid.values()):
            yield dict(zip(grid, values))


def ranking(trials: Sequence[dict], by: str = 'AUPR') -> list[dict]:
    """Lines of a table, one for each trial and score, the best first.

    The first trial is the base. Trials that lose more than half a point of
    mIoU or a point of ECE against it come last.

    Args:
        trials (Sequence[dict]): As :meth:`Search.run` gives them.
        by (str): ``'AUROC'``, ``'AUPR'`` or ``'FPR95'``, pooled.
    """
    base = trials[0]['metrics']
    tried = {name: '-' for trial in trials for name in _short(_options(trial))}
    lines = []
    for trial in trials:
        metrics = trial['metrics']
        keeps = (
            metrics['seg/mIoU'] >= base['seg/mIoU'] - MIOU_LOSS
            and metrics['cal/pooled/ECE'] <= base['cal/pooled/ECE'] + ECE_GAIN)
        for score in SCORES:
            if metrics.get(f'ood/pooled/{score}/AUPR') is None:
                continue
            lines.append({
                **tried, **_short(_options(trial)),
                'prediction': trial['variant'] or 'base', 'score': score,
                'mIoU': metrics['seg/mIoU'],
                'ECE': metrics['cal/pooled/ECE'],
                'NLL': metrics['cal/pooled/NLL'],
                **{name: metrics[f'ood/pooled/{score}/{name}']
                   for name in MEASURES},
                'cost': trial['inference']['ratio'],
                'keeps': 'yes' if keeps else 'no'
            })
    sign = 1 if by == 'FPR95' else -1
    return sorted(lines, key=lambda x: (x['keeps'] == 'no', sign * x[by]))


def _options(trial: dict) -> dict:
    return {**trial['train'], **trial['test']}


def _short(options: dict) -> dict[str, str]:
    return {name.rpartition('.')[2]: str(value)
            for name, value in options.items()}
