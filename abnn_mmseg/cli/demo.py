"""Draw a dataset, make a trained network Bayesian, test it, open a page."""
import argparse
import copy
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

from mmengine.config import Config
from rich.console import Console

from abnn_mmseg.comparison.compare import compare
from abnn_mmseg.comparison.intervals import Intervals
from abnn_mmseg.comparison.report import difference_lines
from abnn_mmseg.datasets.muad_sketch import BASE_CHECKPOINT, make_muad_sketch
from abnn_mmseg.engine import train
from abnn_mmseg.engine.tester import write_metrics
from abnn_mmseg.export.gallery import write_gallery
from abnn_mmseg.export.inferencer import ABNNInferencer
from abnn_mmseg.export.items import find_items
from abnn_mmseg.export.overview import write_overview
from abnn_mmseg.export.result import MapResult
from abnn_mmseg.uncertainty import map_name
from abnn_mmseg.utils.configs import config_path
from abnn_mmseg.utils.console import print_table, progress
from abnn_mmseg.utils.halves import save_half

BASE = 'deeplabv3plus_r18-w24-d16_1xb8-1400_muad-sketch-128x256.py'
ABNN = 'abnn_deeplabv3plus_muad-sketch.py'
TTA = dict(type='TTAPosterior', scales=(0.75, ))
SCORES = ('entropy', 'mutual_information')
MEASURES = ('AUROC', 'AUPR', 'FPR95')
SPLITS = ('test_id', 'test_ood')

COUNTS = dict(train=400, val=20, test_id=30, test_ood=50)
# Images that the base was trained on; they begin with those above.
BASE_COUNTS = dict(train=3000, val=20)
BASE_ENTROPY = map_name('base', 'entropy')
MAPS = ('entropy', 'mutual_information', BASE_ENTROPY)
QUICK: dict[str, Any] = dict(
    options={'train_cfg.max_iters': 2}, members=2,
    counts=dict(train=4, val=2, test_id=2, test_ood=3),
    base_counts=dict(train=8, val=2))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``abnn demo``."""
    parser.add_argument(
        '--work-dir', help='where everything goes (default work_dirs/demo; '
        'work_dirs/demo-quick with --quick)')
    parser.add_argument(
        '--train', action='store_true', help='train the base network again, '
        'instead of taking the one in the package: half an hour or so')
    parser.add_argument(
        '--quick', action='store_true', help='a few images and steps: whether '
        'everything runs, not what it achieves')


def run(args: argparse.Namespace) -> None:
    """Run the demo and print its table."""
    quick = '-quick' if args.quick else ''
    folder = args.work_dir or f'work_dirs/demo{quick}'
    demo = Demo(folder, trains_base=args.train,
                **QUICK if args.quick else {})
    rows = demo.run()
    print_table('Time', [dict(step=k, seconds=v)
                         for k, v in demo.seconds.items()])
    print_table(
        'MUAD-sketch: mIoU and ECE on test_id, anomaly scores on test_ood '
        '(pooled), in %', rows)
    print(f'Numbers: {folder}/metrics.json')
    print(f'Look at the maps: {folder}/report/index.html')


class Demo:
    """Data, members, tests, page: each step reuses what exists.

    Args:
        folder (str): Folder of all results.
        options (dict): Overrides of both configs, such as fewer iterations.
        counts (dict): Images per split.
        members (int, optional): Number of members. Defaults to the config's.
        trains_base (bool): Train the base, instead of taking the one that
            the package has. Defaults to False.
        base_counts (dict): Images per split to train the base on.
    """

    def __init__(self, folder: str, options: Optional[dict] = None,
                 counts: dict[str, int] = COUNTS,
                 members: Optional[int] = None,
                 trains_base: bool = False,
                 base_counts: dict[str, int] = BASE_COUNTS) -> None:
        self.folder = Path(folder)
        self.count = members
        self.counts = counts
        self.base_counts = base_counts
        self.trains_base = trains_base
        self.seconds: dict[str, float] = {}
        self.cfg = dict(
            base=self._config(BASE, 'base', options or {}),
            ABNN=self._config(ABNN, 'abnn', options or {}))
        self.base = BASE_CHECKPOINT
        if trains_base:
            self.base = self.folder / 'base.pth'
        self.members = self.folder / 'abnn' / 'members.pth'
        self.cfg['ABNN'].load_from = str(self.base)
        # The closing table measures; validating members takes passes, too.
        self.cfg['ABNN'].validate_members = False

    def _config(self, file: str, name: str, options: dict) -> Config:
        cfg = Config.fromfile(config_path(file))
        cfg.merge_from_dict(options)
        cfg.work_dir = str(self.folder / name)
        cfg.resume = True
        _set_data(cfg, self.folder / 'data')
        return cfg

    def run(self) -> list[dict]:
        """Rows of the closing table: base, TTA and ABNN."""
        with self._step('Draw MUAD-sketch'):
            make_muad_sketch(self.folder / 'data', self.counts)
        if self.trains_base and not self.base.is_file():
            with self._step('Train the base network'):
                self._train_base()
        with self._step('Make it Bayesian: fine-tune the members'):
            if not self._is_newer(self.members, self.base):
                train(self.cfg['ABNN'], self.count)
        with self._step('Test base, TTA and ABNN'):
            rows = self._rows()
        with self._step('Export the maps of test_ood'):
            page = self.folder / 'report' / 'index.html'
            if not self._is_newer(page, self.folder / 'metrics.json'):
                self._export(rows)
        return rows

    @contextmanager
    def _step(self, title: str) -> Iterator[None]:
        Console().rule(title)
        start = time.monotonic()
        yield
        self.seconds[title] = round(time.monotonic() - start, 1)

    @staticmethod
    def _is_newer(path: Path, than: Path) -> bool:
        return path.is_file() and path.stat().st_mtime >= than.stat().st_mtime

    def _train_base(self) -> None:
        """Train on more drawings; the other data stays the same."""
        data = self.folder / 'base_data'
        make_muad_sketch(data, self.base_counts)
        cfg = copy.deepcopy(self.cfg['base'])
        _set_data(cfg, data)
        train(cfg)
        steps = cfg.train_cfg.max_iters
        save_half(self.folder / 'base' / f'iter_{steps}.pth', self.base)

    def _rows(self) -> list[dict]:
        file = self.folder / 'comparison.json'
        found = compare(self._comparison(), str(file))
        _print_gain(found, self.folder / 'tests' / 'rows')
        metrics = {(row['method'], row['dataset']): row['metrics']
                   for row in found}
        rows = []
        for name in ('base', 'TTA', 'ABNN'):
            known, unknown = (metrics[name, split] for split in SPLITS)
            for score in SCORES if name == 'ABNN' else SCORES[:1]:
                rows.append({
                    'model': name, 'score': score,
                    'mIoU': known['seg/mIoU'],
                    'ECE': known['cal/pooled/ECE'],
                    **{key: unknown[f'ood/pooled/{score}/{key}']
                       for key in MEASURES}
                })
        path = self.folder / 'metrics.json'
        if not self._is_newer(path, self.members):
            write_metrics(path, dict(rows=rows, comparison=found))
        return rows

    def _comparison(self) -> Config:
        cfg = self.cfg['ABNN'].copy()
        cfg.work_dir = str(self.folder / 'tests')
        cfg.test_sets = {split: dict(split=split) for split in SPLITS}
        cfg.test_evaluator = [
            dict(type='IoUMetric', iou_metrics=['mIoU']),
            dict(type='CalibrationMetric'),
            dict(type='AnomalyMetric', scores=SCORES)]
        base, abnn = str(config_path(BASE)), str(config_path(ABNN))
        weights = [str(self.base)]
        cfg.methods = [
            dict(name='base', config=base, checkpoints=weights),
            dict(name='TTA', config=base, checkpoints=weights, posterior=TTA),
            dict(name='ABNN', config=abnn,
                 checkpoints=[*weights, str(self.members)])]
        return cfg

    def _export(self, rows: list[dict]) -> None:
        abnn = ABNNInferencer(self.cfg['ABNN'], str(self.base), self.members)
        shown: list[MapResult] = []
        write_gallery(
            self.folder / 'report', self._results(abnn, shown), abnn.classes,
            abnn.palette, 'MUAD-sketch, objects never seen in training',
            metrics=rows, overwrite=True, scores=list(MAPS))
        write_overview(self.folder / 'overview.png', shown, abnn.palette,
                       [BASE_ENTROPY, 'entropy', 'mutual_information'])

    def _results(self, abnn: ABNNInferencer,
                 shown: list[MapResult]) -> Iterator[MapResult]:
        """ABNN's results, with the entropy of the base as another map.

        Images with large unknown objects are also added to ``shown``.
        """
        base = ABNNInferencer(
            self.cfg['base'], str(self.base), scores=['entropy'])
        count, items = find_items(abnn, 'test')
        _, others = find_items(base, 'test')
        pairs = zip(abnn.results(item.load for item in items),
                    base.results(item.load for item in others))
        for result, other in progress(pairs, 'Export', count):
            result.maps[BASE_ENTROPY] = other.maps['entropy']
            result.maps = {name: result.maps[name] for name in MAPS}
            if len(shown) < 4 and (result.anomaly == 1).mean() > 0.04:
                shown.append(result)
            yield result


def _set_data(cfg: Config, folder: Path) -> None:
    for split in ('train', 'val', 'test'):
        cfg[f'{split}_dataloader'].dataset.data_root = str(folder)


def _print_gain(rows: list[dict], folder: Path) -> None:
    """Print the difference of ABNN to test-time augmentation.

    The comparison itself has printed the difference to the base.
    """
    unknown = [dict(row) for row in rows if row['dataset'] == 'test_ood']
    lines = difference_lines(
        [row for row in Intervals(folder, 'TTA').of(unknown)
         if row['method'] == 'ABNN'], SCORES[:1])
    if lines:
        print_table("test_ood, difference to 'TTA' and its 95 % interval",
                    lines)
