"""Draw a dataset, train a base, make it Bayesian, test both, write a page."""
import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

from mmengine.config import Config
from rich.console import Console

from abnn_mmseg.datasets.muad_sketch import make_muad_sketch
from abnn_mmseg.engine import train
from abnn_mmseg.engine.tester import Results, test_all, write_metrics
from abnn_mmseg.evaluation.anomaly import MEASURES
from abnn_mmseg.export.export import find_items
from abnn_mmseg.export.gallery import write_gallery
from abnn_mmseg.export.inferencer import ABNNInferencer
from abnn_mmseg.export.overview import write_overview
from abnn_mmseg.export.result import MapResult
from abnn_mmseg.uncertainty import map_name
from abnn_mmseg.utils.configs import config_path
from abnn_mmseg.utils.console import print_table, progress

BASE = 'deeplabv3plus_r18-d16_1xb4-1100_muad-sketch-128x256.py'
ABNN = 'abnn_deeplabv3plus_muad-sketch.py'
SCORES = dict(base=('msp', 'entropy'),
              ABNN=('msp', 'entropy', 'mutual_information'))

COUNTS = dict(train=400, val=20, test_id=30, test_ood=50)
SPLITS = ('test_id', 'test_ood')
BASE_ENTROPY = map_name('base', 'entropy')
MAPS = ('entropy', 'mutual_information', BASE_ENTROPY)
QUICK: dict[str, Any] = dict(
    options={'train_cfg.max_iters': 2}, members=2,
    counts=dict(train=4, val=2, test_id=2, test_ood=3))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``abnn demo``."""
    parser.add_argument(
        '--work-dir', help='where everything goes (default work_dirs/demo; '
        'work_dirs/demo-quick with --quick)')
    parser.add_argument(
        '--quick', action='store_true', help='a few images and steps: whether '
        'everything runs, not what it achieves')


def run(args: argparse.Namespace) -> None:
    """Run ``abnn demo``."""
    quick = '-quick' if args.quick else ''
    folder = args.work_dir or f'work_dirs/demo{quick}'
    demo = Demo(folder, **QUICK) if args.quick else Demo(folder)
    rows = demo.run()
    print_table('Time', [dict(step=k, seconds=v)
                         for k, v in demo.seconds.items()])
    print_table(
        'MUAD-sketch: mIoU and ECE on test_id, anomaly scores on test_ood '
        '(pooled), in %', rows)
    print(f'Numbers: {folder}/metrics.json')
    print(f'Look at the maps: {folder}/report/index.html')


class Demo:
    """Runs the steps of the demo; finished steps are not repeated.

    Args:
        folder (str): Where everything goes.
        options (dict): Overrides of both configs, e.g. fewer iterations.
        counts (dict): Images per split.
        members (int, optional): How many. Defaults to the config's.
    """

    def __init__(self, folder: str, options: Optional[dict] = None,
                 counts: dict[str, int] = COUNTS,
                 members: Optional[int] = None) -> None:
        self.folder = Path(folder)
        self.count = members
        self.counts = counts
        self.seconds: dict[str, float] = {}
        self.cfg = dict(
            base=self._config(BASE, 'base', options or {}),
            ABNN=self._config(ABNN, 'abnn', options or {}))
        steps = self.cfg['base'].train_cfg.max_iters
        self.base = self.folder / 'base' / f'iter_{steps}.pth'
        self.members = self.folder / 'abnn' / 'members.pth'
        self.cfg['ABNN'].load_from = str(self.base)

    def _config(self, file: str, name: str, options: dict) -> Config:
        cfg = Config.fromfile(config_path(file))
        cfg.merge_from_dict(options)
        cfg.work_dir = str(self.folder / name)
        cfg.resume = True
        for split in ('train', 'val', 'test'):
            cfg[f'{split}_dataloader'].dataset.data_root = str(
                self.folder / 'data')
        return cfg

    def run(self) -> list[dict]:
        """Rows of the closing table, base next to ABNN."""
        with self._step('Draw MUAD-sketch'):
            make_muad_sketch(self.folder / 'data', self.counts)
        with self._step('Train the base network'):
            if not self.base.is_file():
                train(self.cfg['base'])
        with self._step('Make it Bayesian: fine-tune the members'):
            if not self._is_newer(self.members, self.base):
                train(self.cfg['ABNN'], self.count)
        with self._step('Test both'):
            rows = self._rows()
        with self._step('Export the maps of test_ood'):
            page = self.folder / 'report' / 'index.html'
            if not self._is_newer(page, self.folder / 'metrics.json'):
                self._export(rows)
        return rows

    @contextmanager
    def _step(self, title: str):
        Console().rule(title)
        start = time.monotonic()
        yield
        self.seconds[title] = round(time.monotonic() - start, 1)

    @staticmethod
    def _is_newer(path: Path, than: Path) -> bool:
        return path.is_file() and path.stat().st_mtime >= than.stat().st_mtime

    def _rows(self) -> list[dict]:
        metrics = self._test()
        rows = []
        for name, scores in SCORES.items():
            known, unknown = (metrics[name][s] for s in SPLITS)
            for score in scores:
                rows.append({
                    'model': name, 'score': score,
                    'mIoU': known['seg/mIoU'],
                    'ECE': known['cal/pooled/ECE'],
                    **{
                        key: unknown[f'ood/pooled/{score}/{key}']
                        for key in MEASURES
                    }
                })
        path = self.folder / 'metrics.json'
        content = dict(rows=rows, **metrics)
        if not path.is_file() or json.loads(path.read_text()) != content:
            write_metrics(path, content)
        return rows

    def _test(self) -> Results:
        """Metrics of both models on both splits, tested only once."""
        cfg = self.cfg['ABNN'].copy()
        cfg.work_dir = str(self.folder / 'tests')
        cfg.posteriors = dict(
            base=dict(type='DeterministicPosterior'), ABNN=dict())
        path = Path(cfg.work_dir) / 'metrics.json'
        if not self._is_newer(path, self.members):
            test_all(cfg, [self.base, self.members], SPLITS, list(SCORES))
        return json.loads(path.read_text())

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
        """ABNN's results, with the base's entropy next to its own.

        Images whose unknown objects are large go to ``shown`` as well.
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
