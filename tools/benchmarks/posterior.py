"""How close posteriors over norm parameters are to the true one.

HMC samples the posterior over the norm parameters of a small network, given a
few narrow images of MUAD-sketch. Every other method is fitted to the same
images, and its mean prediction on test images compared with that of HMC:

    agreement   share of pixels with the same class
    TV          total variation, sum_c |p_c - q_c| / 2, mean over the pixels

on images of known things and on images with unknown ones, beside NLL, ECE,
AUROC and FPR95. One HMC chain against the others is the ceiling. All work is
kept in the work folder, and goes on where it stopped.
"""
import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import torch
from mmengine.dataset import pseudo_collate
from mmengine.evaluator import Evaluator
from mmengine.registry import init_default_scope
from mmseg.registry import DATASETS
from torch import Tensor

from abnn_mmseg.comparison.rows import key_of
from abnn_mmseg.engine.loading import build_posterior, build_segmentor
from abnn_mmseg.engine.tester import grouped
from abnn_mmseg.members.files import read_members, save_members
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.checkpoints import read_checkpoint
from abnn_mmseg.utils.console import progress
from abnn_mmseg.utils.files import atomic_path
from benchmarks.posterior_plot import plot
from benchmarks.posterior_rows import methods
from benchmarks.posterior_world import ABNN, World

SPLITS = dict(known='test_id', unknown='test_ood')
METRICS = [
    dict(type='CalibrationMetric'),
    dict(type='AnomalyMetric', protocols=('pooled', ),
         scores=('entropy', 'mutual_information')),
]
NUMBERS = dict(
    known=dict(NLL='cal/pooled/NLL', ECE='cal/pooled/ECE'),
    unknown=dict(AUROC='ood/pooled/entropy/AUROC',
                 FPR95='ood/pooled/entropy/FPR95'))
# Arguments that no prediction depends on.
NOT_OF_ROWS = ('work_dir', 'jobs', 'plot', 'json', 'alphas', 'temperatures',
               'benchmark')
Predictions = dict[str, Tensor]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``tools/benchmark.py posterior``."""
    for name, value, text in (
        ('images', 16, 'images of the posterior'),
        ('test-images', 12, 'images of each kind to compare on'),
        ('base-images', 600, 'images of the base'),
        ('base-iterations', 600, 'training of the base'),
        ('width', 8, 'channels of the first stage'),
        ('chains', 3, 'HMC chains'), ('samples', 40, 'of each chain'),
        ('burn-in', 15, 'trajectories of each chain before'),
        ('max-steps', 60, 'of a trajectory'),
        ('draws', 24, 'networks of every other posterior'),
        ('members', 4, 'ABNN members, and tuned norms'),
        ('jobs', 1, 'chains at once')):
        parser.add_argument(f'--{name}', type=int, default=value, help=text)
    parser.add_argument('--work-dir', default='work_dirs/posterior')
    parser.add_argument('--prior-std', type=float, default=0.1)
    parser.add_argument('--effective-pixels', type=float)
    parser.add_argument('--alphas', type=float, nargs='+',
                        default=[0.05, 0.1, 0.2, 0.4])
    parser.add_argument('--temperatures', type=float, nargs='+',
                        default=[1., 0.1])
    parser.add_argument('--plot', help='file for the figure')


def run(args: argparse.Namespace) -> dict:
    """A row for each method, and how well HMC converged."""
    init_default_scope('mmseg')
    world = World(args)
    judge = Judge(world)
    rows, reports, references = [], {}, {}
    for temperature in args.temperatures:
        path, reports[f'{temperature:g}'] = world.hmc(temperature)
        references[temperature] = Reference(judge, path, args.chains)
    for temperature, reference in references.items():
        rows.append(dict(method=f'HMC, T = {temperature:g}', **judge.row(
            dict(type='SampledPosterior'), [reference.path], references)))
        rows.append(dict(
            method=f'one HMC chain, T = {temperature:g}',
            **reference.ceiling()))
    for name, (posterior, files) in methods(world).items():
        rows.append(dict(
            method=name, **judge.row(posterior, files, references)))
    result = dict(
        rows=rows, convergence=[
            dict(temperature=t, **_flat(report))
            for t, report in reports.items()],
        settings={
            k: v for k, v in vars(args).items()
            if k not in ('work_dir', 'plot', 'json')},
        verdict=verdict(rows, reports))
    if args.plot:
        plot(result, args.plot)
    return result


def _flat(report: dict) -> dict:
    """Numbers of a report without nesting, for a table."""
    found = {k: v for k, v in report.items() if isinstance(v, (int, float))}
    for part in ('parameters', 'pixels'):
        found.update({f'{part} {k}': v for k, v in report[part].items()})
    return found


def verdict(rows: list[dict], reports: dict) -> dict:
    """Whether the goals are met, at the first temperature."""
    first = next(iter(reports))
    column = f'TV known T={first}'

    def best(word: str) -> float:
        return min(row[column] for row in rows if word in row['method'])

    return dict(
        rhat_goal_met=reports[first]['pixels']['rhat_below'] >= 0.95,
        abnn_best_tv=best('ABNN'), ensemble_tv=best('tuned'),
        tv_goal_met=best('ABNN') <= best('tuned'))


class Judge:
    """Predicts the test images with any posterior, and compares."""

    def __init__(self, world: World) -> None:
        self.folder = world.folder / 'rows'
        self.settings = {k: v for k, v in vars(world.args).items()
                         if k not in NOT_OF_ROWS}
        self.base = world.base
        self.cfg = world.config(ABNN)
        self.cfg.model.posterior = dict(type='DeterministicPosterior')
        self.cfg.model.scores = ('entropy', 'mutual_information')
        self._model: Optional[BayesianSegmentor] = None

    @property
    def model(self) -> BayesianSegmentor:
        """Built when a row has to be computed."""
        if self._model is None:
            self._model = build_segmentor(self.cfg, [self.base])
        return self._model

    def row(self, posterior: dict, files: list[str],
            references: dict) -> dict:
        """Metrics of a method; its predictions are computed once."""
        key = key_of(posterior, files, self.settings)
        path = self.folder / f'{key}.pth'
        if not path.is_file():
            own, numbers = self.predict(posterior, files)
            with atomic_path(path) as temporary:
                torch.save(dict(numbers=numbers, predictions={
                    k: v.half() for k, v in own.items()}), temporary)
        known = read_checkpoint(path)
        own = {k: v.float() for k, v in known['predictions'].items()}
        numbers = dict(known['numbers'])
        for temperature, reference in references.items():
            numbers.update(reference.compare(own, f'T={temperature:g}'))
        return numbers

    def predict(self, posterior: dict, files: list[str]
                ) -> tuple[Predictions, dict]:
        """Mean probabilities on both kinds of images, and metrics."""
        attached = build_posterior(self.model, posterior, files)
        found, numbers = {}, dict(networks=len(attached))
        for kind, split in SPLITS.items():
            cfg = dict(self.cfg.test_dataloader.dataset, split=split)
            evaluator = Evaluator(METRICS)
            dataset = DATASETS.build(cfg)
            evaluator.dataset_meta = dataset.metainfo
            found[kind] = torch.stack(list(
                self._images(dataset, attached, evaluator)))
            metrics = grouped(evaluator.evaluate(len(dataset)))
            numbers.update({
                name: metrics[key] for name, key in NUMBERS[kind].items()})
        return found, numbers

    @torch.no_grad()
    def _images(self, dataset, posterior, evaluator) -> Iterator[Tensor]:
        numbers = range(len(dataset))
        title = type(posterior).__name__
        for number in progress(numbers, title, len(numbers)):
            data = self.model.data_preprocessor(
                pseudo_collate([dataset[number]]), False)
            samples = data['data_samples']
            answer = self.model.answer(
                data['inputs'], [s.metainfo for s in samples], posterior, ())
            self.model.conclude(answer, samples, 'posterior_mean')
            evaluator.process(samples, data)
            yield answer.statistics[0].probability


class Reference:
    """The predictions of HMC, chain by chain."""

    def __init__(self, judge: Judge, path: str, chains: int) -> None:
        self.judge = judge
        self.path = path
        self.chains = chains
        self.file = Path(path).with_suffix('.predictions.pth')
        self._found: Optional[list[Predictions]] = None

    @property
    def by_chain(self) -> list[Predictions]:
        """Computed once, and kept in a file."""
        if self._found is None:
            self._found = [
                {kind: self._part(k, kind) for kind in SPLITS}
                for k in range(self.chains)]
        return self._found

    def _part(self, chain: int, kind: str) -> Tensor:
        stored = self.file.with_suffix(f'.{chain}.pth')
        if not stored.is_file():
            own, _ = self.judge.predict(
                dict(type='SampledPosterior'), [self.split(chain)])
            with atomic_path(stored) as temporary:
                torch.save(own, temporary)
        return read_checkpoint(stored)[kind]

    def split(self, chain: int) -> str:
        """A member file of one chain's samples."""
        path = self.file.with_suffix(f'.{chain}.members.pth')
        members = read_members(self.path)
        save_members(path, [
            dict(state=m['state'], meta=m['meta']) for m in members
            if m['meta']['chain'] == chain], members[0]['fingerprint'])
        return str(path)

    def mean(self, kind: str, without: Optional[int] = None) -> Tensor:
        """Predictions of all chains, or of all but one."""
        return torch.stack([
            found[kind] for k, found in enumerate(self.by_chain)
            if k != without]).mean(0)

    def compare(self, own: Predictions, name: str,
                without: Optional[int] = None) -> dict:
        """Agreement and total variation of predictions, in percent."""
        found = {}
        for kind, probability in own.items():
            other = self.mean(kind, without)
            same = probability.argmax(1) == other.argmax(1)
            tv = (probability - other).abs().sum(1) / 2
            found[f'agreement {kind} {name}'] = 100 * float(
                same.float().mean())
            found[f'TV {kind} {name}'] = 100 * float(tv.mean())
        return found

    def ceiling(self) -> dict:
        """One chain against the others, mean over the chains."""
        name = f'T={self.path.rpartition("_")[2].removesuffix(".pth")}'
        rows = [self.compare(own, name, k)
                for k, own in enumerate(self.by_chain)]
        return {key: sum(row[key] for row in rows) / len(rows)
                for key in rows[0]}
