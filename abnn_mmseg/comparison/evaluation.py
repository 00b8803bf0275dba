"""Test the variants of a method on a dataset; stop and go on at any image."""
import copy
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Optional

import numpy as np
import torch
from mmengine.dataset import pseudo_collate
from mmengine.evaluator import Evaluator

from abnn_mmseg.engine.tester import grouped
from abnn_mmseg.models.posteriors import DeterministicPosterior
from abnn_mmseg.models.segmentor import Answer, BayesianSegmentor
from abnn_mmseg.utils.checkpoints import read_checkpoint
from abnn_mmseg.utils.console import progress
from abnn_mmseg.utils.files import atomic_path

# A deterministic pass is timed beside every so many images.
TIMED = 10
DISAGREEMENT = ('mutual_information', 'variance')
# Seconds of work that an interruption may cost.
SAVE_EVERY = 60.


class Evaluation:
    """All variants in one go: draws are shared, conclusions are their own.

    Args:
        model (BayesianSegmentor): The method's.
        variants (dict): Overrides of the segmentor's ``prediction`` and
            ``temperature``, by name.
        dataset (Dataset): Packs inputs with their ground truth.
        metrics (Sequence[dict]): Configs of metrics.
        images (Sequence[int]): Which images of the dataset.
        shown (Sequence[int]): Images whose maps are kept.
        score (str): Which maps.
        state_file (Path): Where unfinished work is kept.
    """

    def __init__(self, model: BayesianSegmentor,
                 variants: dict[str, dict], dataset,
                 metrics: Sequence[dict], images: Sequence[int],
                 shown: Sequence[int], score: str, state_file: Path) -> None:
        self.model = model
        self.variants = variants
        self.dataset = dataset
        self.images = list(images)
        self.shown = set(shown)
        self.score = score
        self.state_file = state_file
        self.evaluators = {
            name: Evaluator(copy.deepcopy(list(metrics))) for name in variants
        }
        for evaluator in self.evaluators.values():
            evaluator.dataset_meta = dataset.metainfo
        self.reference = DeterministicPosterior()
        self.reference.attach(model)
        self.done = 0
        self.seconds: list[dict[str, float]] = []
        self.maps: dict[str, dict[str, torch.Tensor]] = {}

    def run(self, title: str) -> dict[str, dict]:
        """Metrics and seconds of each variant."""
        self._load()
        saved = time.monotonic()
        left = self.images[self.done:]
        if left:
            # The first pass of a process is slower than all others.
            self._time_reference(self._inputs(left[0]))
        for number in progress(left, title, len(left)):
            self._image(number)
            self.done += 1
            # Only between images: an interruption may fall anywhere, and
            # must not count an image for some of the metrics.
            if time.monotonic() - saved > SAVE_EVERY:
                self._save()
                saved = time.monotonic()
        return {name: self._result(name) for name in self.variants}

    def forget(self) -> None:
        """Remove what an unfinished run would need."""
        self.state_file.unlink(missing_ok=True)

    def _result(self, name: str) -> dict:
        metrics = grouped(self.evaluators[name].evaluate(len(self.images)))
        networks = len(self.model.posterior)
        if networks == 1:
            # One network cannot disagree with itself: rounding errors.
            metrics = {key: value for key, value in metrics.items()
                       if not set(key.split('/')) & set(DISAGREEMENT)}
        timed = [s for s in self.seconds if 'reference' in s]
        # Medians, of neighbours in time: other programs may be running.
        return dict(
            networks=networks,
            metrics=metrics,
            inference=dict(
                seconds=median(self._own(name, s) for s in self.seconds),
                deterministic_seconds=median(s['reference'] for s in timed),
                ratio=median(self._own(name, s) / s['reference']
                             for s in timed)))

    def _own(self, name: str, seconds: dict[str, float]) -> float:
        """Seconds that a variant alone would take for an image."""
        parts = {'posterior_mean', self._prediction(name)}
        return seconds[f'conclude {name}'] + sum(
            seconds[part] for part in parts)

    def _prediction(self, name: str) -> str:
        return self.variants[name].get('prediction', self.model.prediction)

    def _inputs(self, number: int) -> dict:
        batch = pseudo_collate([self.dataset[number]])
        return self.model.data_preprocessor(batch, False)

    @torch.no_grad()
    def _image(self, number: int) -> None:
        data = self._inputs(number)
        inputs, samples = data['inputs'], data['data_samples']
        metas = [sample.metainfo for sample in samples]
        seconds: dict[str, float] = {}
        answer = self._answer(inputs, metas, seconds)
        for name, changes in self.variants.items():
            with self._clock(f'conclude {name}', seconds), _changed(
                    self.model, changes):
                self.model.conclude(answer, samples)
            self.evaluators[name].process(samples, data)
            if number in self.shown:
                self._keep(name, number, samples[0])
        if self.done % TIMED == 0:
            seconds['reference'] = self._time_reference(data)
        self.seconds.append(seconds)

    def _answer(self, inputs: torch.Tensor, metas: list[dict],
                seconds: dict[str, float]) -> Answer:
        """One answer for all variants; each prediction is timed apart."""
        with self._clock('posterior_mean', seconds):
            answer = self.model.answer(inputs, metas, predictions=())
        posteriors = dict(
            centre=self.model.posterior.noise_free(), base=self.reference)
        for name in {*map(self._prediction, self.variants)} & {*posteriors}:
            with self._clock(name, seconds):
                other = self.model.answer(inputs, metas, posteriors[name], ())
            answer.predictions[name] = other.draws
            if other.logits:
                answer.logits[name] = other.logits[name]
        return answer

    @torch.no_grad()
    def _time_reference(self, data: dict) -> float:
        """Seconds of one deterministic pass and its maps."""
        inputs, samples = data['inputs'], copy.deepcopy(data['data_samples'])
        metas = [sample.metainfo for sample in samples]
        seconds: dict[str, float] = {}
        with self._clock('reference', seconds):
            answer = self.model.answer(inputs, metas, self.reference)
            self.model.conclude(answer, samples, temperature=1.)
        return seconds['reference']

    @contextmanager
    def _clock(self, name: str, seconds: dict[str, float]) -> Iterator[None]:
        start = time.perf_counter()
        yield
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds[name] = time.perf_counter() - start

    def _keep(self, name: str, number: int, sample) -> None:
        maps = self.maps.setdefault(name, {})
        maps[f'{number} {self.score}'] = sample.uncertainty.get(
            self.score)[0].cpu().half()
        maps[f'{number} prediction'] = sample.pred_sem_seg.data[0].cpu(
        ).byte()

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """The kept maps of a variant, for a file."""
        return {key: value.numpy()
                for key, value in self.maps.get(name, {}).items()}

    def _save(self) -> None:
        state = dict(
            done=self.done, seconds=self.seconds, maps=self.maps,
            metrics={
                name: [_state(metric) for metric in evaluator.metrics]
                for name, evaluator in self.evaluators.items()
            })
        with atomic_path(self.state_file) as temporary:
            torch.save(state, temporary)

    def _load(self) -> None:
        if not self.state_file.is_file():
            return
        state = read_checkpoint(self.state_file)
        self.done, self.seconds = state['done'], state['seconds']
        self.maps = state['maps']
        for name, evaluator in self.evaluators.items():
            for metric, known in zip(evaluator.metrics,
                                     state['metrics'][name]):
                _restore(metric, known)


def _state(metric) -> dict:
    if hasattr(metric, 'state_dict'):
        return metric.state_dict()
    return dict(results=metric.results)


def _restore(metric, state: dict) -> None:
    if hasattr(metric, 'load_state_dict'):
        metric.load_state_dict(state)
    else:
        metric.results = state['results']


@contextmanager
def _changed(model, changes: dict) -> Iterator[None]:
    """For a while, some settings of a segmentor or posterior are others."""
    before: dict[str, Optional[object]] = {
        name: getattr(model, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(model, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(model, name, value)
