"""Test the variants of a method on a dataset; resumable at any image.

The loop is that of ``abnn test``, :class:`abnn_mmseg.engine.tester.Tester`.
What a comparison adds sits around it: a wrapped model that answers once for
all variants and takes the time, an evaluator with the metrics of each
variant, and a hook that stores unfinished work.
"""
import copy
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median
from typing import Any, Optional

import numpy as np
import torch
from mmengine.dataset import pseudo_collate
from mmengine.evaluator import Evaluator
from mmengine.hooks import Hook
from mmseg.registry import MODEL_WRAPPERS
from mmseg.structures import SegDataSample
from torch import nn
from torch.utils.data import DataLoader

from abnn_mmseg.engine.tester import Tester, grouped
from abnn_mmseg.models.posteriors import DeterministicPosterior
from abnn_mmseg.models.segmentor import Answer, BayesianSegmentor
from abnn_mmseg.utils.checkpoints import read_checkpoint
from abnn_mmseg.utils.console import progress_bar
from abnn_mmseg.utils.files import atomic_path

# A deterministic pass is timed after every so many images.
TIMED = 10
DISAGREEMENT = ('mutual_information', 'variance')
# Seconds of work that an interruption may cost.
SAVE_EVERY = 60.


@MODEL_WRAPPERS.register_module()
class VariantModel(nn.Module):
    """Answers once for an image and concludes the answer for each variant.

    Args:
        module (BayesianSegmentor): The method's.
        variants (dict): Overrides of the segmentor's ``prediction`` and
            ``temperature``, by name.

    Attributes:
        seconds (list[dict]): Of each image: the time of each step by name,
            and how many ``networks`` ran.
    """

    def __init__(self, module: BayesianSegmentor,
                 variants: dict[str, dict]) -> None:
        super().__init__()
        self.module = module
        self.variants = variants
        self.seconds: list[dict[str, float]] = []
        self.is_warm = False
        self.reference = DeterministicPosterior()
        self.reference.attach(module)

    def test_step(self, data: dict) -> list[SegDataSample]:
        """One sample for each variant, of a batch of one image."""
        data = self.module.data_preprocessor(data, False)
        inputs, samples = data['inputs'], data['data_samples']
        if not self.is_warm:
            # The first pass of a process is slower than all others.
            self._time_reference(inputs, samples)
            self.is_warm = True
        seconds: dict[str, float] = {}
        answer = self._answer(
            inputs, [sample.metainfo for sample in samples], seconds)
        concluded = []
        for name, changes in self.variants.items():
            own = [sample.new() for sample in samples]
            with _clock(f'conclude {name}', seconds):
                self.module.conclude(answer, own, **changes)
            concluded += own
        if len(self.seconds) % TIMED == 0:
            seconds['reference'] = self._time_reference(inputs, samples)
        self.seconds.append(seconds)
        return concluded

    def _answer(self, inputs: torch.Tensor, metas: list[dict],
                seconds: dict[str, float]) -> Answer:
        """One answer for all variants; each prediction is timed apart."""
        model = self.module
        wanted = set(map(self._prediction, self.variants))
        # Timed with the pass that gives it.
        given = wanted & {'base'} if model.posterior.gives_base else set()
        with _clock('posterior_mean', seconds):
            answer = model.answer(inputs, metas, predictions=list(given))
        seconds.update(dict.fromkeys(given, 0.))
        seconds['networks'] = answer.draws[0].count
        posteriors = dict(
            centre=model.posterior.noise_free(), base=self.reference)
        for name in (wanted - given) & {*posteriors}:
            with _clock(name, seconds):
                other = model.answer(inputs, metas, posteriors[name], ())
            answer.predictions[name] = other.draws
            if other.logits:
                answer.logits[name] = other.logits[name]
        return answer

    def _time_reference(self, inputs: torch.Tensor,
                        samples: list[SegDataSample]) -> float:
        """Seconds of one deterministic pass and its maps."""
        samples = [sample.new() for sample in samples]
        seconds: dict[str, float] = {}
        with _clock('reference', seconds):
            answer = self.module.answer(
                inputs, [sample.metainfo for sample in samples],
                self.reference)
            self.module.conclude(answer, samples, temperature=1.)
        return seconds['reference']

    def cost(self, name: str) -> dict[str, float]:
        """Seconds per image of a variant, also as a multiple of one pass.

        Medians, of passes close in time: other programs may be running. Also
        the mean number of ``networks``, which a tolerance makes smaller.
        """
        timed = [s for s in self.seconds if 'reference' in s]
        return dict(
            networks=mean(s['networks'] for s in self.seconds),
            seconds=median(self.own_seconds(name, s) for s in self.seconds),
            deterministic_seconds=median(s['reference'] for s in timed),
            ratio=median(self.own_seconds(name, s) / s['reference']
                         for s in timed))

    def own_seconds(self, name: str, seconds: dict[str, float]) -> float:
        """Seconds that a variant alone would take for an image."""
        parts = {'posterior_mean', self._prediction(name)}
        return seconds[f'conclude {name}'] + sum(
            seconds[part] for part in parts)

    def _prediction(self, name: str) -> str:
        return self.variants[name].get('prediction', self.module.prediction)


class VariantEvaluator(Evaluator):
    """The metrics of each variant, on its own samples.

    Args:
        metrics (Sequence[dict]): Configs of metrics.
        variants (Iterable[str]): Names, in the order of the samples.

    Attributes:
        results (dict[str, dict]): What :meth:`evaluate` found, by variant.
    """

    def __init__(self, metrics: Sequence[dict], variants) -> None:
        self.parts = {
            name: Evaluator(copy.deepcopy(list(metrics))) for name in variants
        }
        self.results: dict[str, dict] = {}
        super().__init__([
            metric for part in self.parts.values() for metric in part.metrics])

    def process(self, data_samples: Sequence[SegDataSample],
                data_batch: Optional[Any] = None) -> None:
        """Measure one image, of which each variant has a sample."""
        for sample, part in zip(data_samples, self.parts.values()):
            part.process([sample], data_batch)

    def evaluate(self, size: int) -> dict:
        """Fill ``results``; an empty dict leaves the log as it is."""
        self.results = {
            name: grouped(part.evaluate(size))
            for name, part in self.parts.items()
        }
        return {}

    def state(self) -> dict[str, list]:
        """What was measured so far, as tensors and builtins."""
        return {name: [_state(metric) for metric in part.metrics]
                for name, part in self.parts.items()}

    def restore(self, state: dict[str, list]) -> None:
        """Go on from a stored :meth:`state`."""
        for name, part in self.parts.items():
            for metric, known in zip(part.metrics, state[name]):
                _restore(metric, known)


class Evaluation(Hook):
    """All variants in one pass over the images, stored while it runs.

    Args:
        tester (Tester): Of the method.
        variants (dict): See :class:`VariantModel`.
        dataset (Dataset): Packs inputs with their ground truth.
        metrics (Sequence[dict]): Configs of metrics.
        images (Sequence[int]): Which images of the dataset.
        shown (Sequence[int]): Images whose maps are kept.
        score (str): Which maps.
        state_file (Path): Where unfinished work is kept.
    """

    def __init__(self, tester: Tester, variants: dict[str, dict], dataset,
                 metrics: Sequence[dict], images: Sequence[int],
                 shown: Sequence[int], score: str, state_file: Path) -> None:
        self.tester = tester
        self.model = VariantModel(tester.model, variants)
        self.evaluator = VariantEvaluator(metrics, variants)
        self.dataset = dataset
        self.images = list(images)
        self.shown = set(shown)
        self.score = score
        self.state_file = state_file
        self.done = 0
        self.maps: dict[str, dict[str, torch.Tensor]] = {}

    def run(self, title: str) -> dict[str, dict]:
        """Metrics and seconds of each variant."""
        self._load()
        self._saved = time.monotonic()
        # No workers: they would take processors from what is timed.
        left = DataLoader(self.dataset, sampler=self.images[self.done:],
                          collate_fn=pseudo_collate)
        runner = self.tester.runner
        runner.model = self.model
        runner.register_hook(self)
        with progress_bar(title, len(self.images)) as self._show:
            self.tester.run(left, self.evaluator)
        return {name: self._result(name) for name in self.model.variants}

    def after_test_iter(self, runner, batch_idx: int, data_batch=None,
                        outputs: Sequence[SegDataSample] = ()) -> None:
        """Keep the maps of an image; store all of it from time to time."""
        number = self.images[self.done]
        if number in self.shown:
            for name, sample in zip(self.model.variants, outputs):
                self._keep(name, number, sample)
        self.done += 1
        self._show(self.done)
        # The metrics of all variants have seen the image by now.
        if time.monotonic() - self._saved > SAVE_EVERY:
            self._save()
            self._saved = time.monotonic()

    def forget(self) -> None:
        """Remove the stored state, once the results are written."""
        self.state_file.unlink(missing_ok=True)

    def _result(self, name: str) -> dict:
        metrics = self.evaluator.results[name]
        networks = len(self.tester.model.posterior)
        if networks == 1 and not self.tester.model.posterior.is_student:
            # One network cannot disagree with itself: rounding errors.
            metrics = {key: value for key, value in metrics.items()
                       if not set(key.split('/')) & set(DISAGREEMENT)}
        return dict(networks=networks, metrics=metrics,
                    inference=self.model.cost(name))

    def _keep(self, name: str, number: int, sample: SegDataSample) -> None:
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
            done=self.done, seconds=self.model.seconds, maps=self.maps,
            metrics=self.evaluator.state())
        with atomic_path(self.state_file) as temporary:
            torch.save(state, temporary)

    def _load(self) -> None:
        if not self.state_file.is_file():
            return
        state = read_checkpoint(self.state_file)
        self.done, self.model.seconds = state['done'], state['seconds']
        self.maps = state['maps']
        self.evaluator.restore(state['metrics'])


@contextmanager
def _clock(name: str, seconds: dict[str, float]) -> Iterator[None]:
    """Take the time of the body, once the device has finished it."""
    start = time.perf_counter()
    yield
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    seconds[name] = time.perf_counter() - start


def _state(metric) -> dict:
    if hasattr(metric, 'state_dict'):
        return metric.state_dict()
    return dict(results=metric.results)


def _restore(metric, state: dict) -> None:
    if hasattr(metric, 'load_state_dict'):
        metric.load_state_dict(state)
    else:
        metric.results = state['results']
