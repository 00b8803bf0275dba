"""The model and the metrics of the variants of a method.

The model answers once for all variants and measures the time; the evaluator
has the metrics of each variant.
"""
import copy
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import mean, median
from typing import Any, Optional

import torch
from mmengine.evaluator import Evaluator
from mmseg.registry import MODEL_WRAPPERS
from mmseg.structures import SegDataSample
from torch import nn

from abnn_mmseg.engine.tester import grouped
from abnn_mmseg.models.answering import Answer
from abnn_mmseg.models.posteriors import DeterministicPosterior
from abnn_mmseg.models.segmentor import BayesianSegmentor

# Images between two deterministic passes that are timed.
TIMED = 10


@MODEL_WRAPPERS.register_module()
class VariantModel(nn.Module):
    """A model that answers once for an image, for all variants.

    Args:
        module (BayesianSegmentor): The segmentor of the method.
        variants (dict): Overrides of the segmentor's ``prediction`` and
            ``temperature``, by name.

    Attributes:
        seconds (list[dict]): For each image the time of each step by name,
            and the number of ``networks`` that ran.
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
        # The posterior's own pass gives it, and its time is not known apart.
        given = wanted & {'base'} if model.posterior.gives_base else set()
        with _clock('posterior_mean', seconds):
            answer = model.answer(inputs, metas, predictions=list(given))
        seconds.update(dict.fromkeys(given, 0.))
        seconds['networks'] = answer.statistics[0].count
        posteriors = dict(
            centre=model.posterior.noise_free(), base=self.reference)
        for name in (wanted - given) & {*posteriors}:
            with _clock(name, seconds):
                other = model.answer(inputs, metas, posteriors[name], ())
            answer.predictions[name] = other.statistics
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

        These are medians. The multiple compares passes close in time, since
        other programs may be running. ``networks`` is the mean number of
        networks, which a tolerance reduces.
        """
        timed = [s for s in self.seconds if 'reference' in s]
        return dict(
            networks=mean(s['networks'] for s in self.seconds),
            seconds=median(self.own_seconds(name, s) for s in self.seconds),
            deterministic_seconds=median(s['reference'] for s in timed),
            ratio=median(self.own_seconds(name, s) / s['reference']
                         for s in timed))

    def own_seconds(self, name: str, seconds: dict[str, float]) -> float:
        """Seconds that an image would take with this variant alone."""
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
        results (dict[str, dict]): Results of :meth:`evaluate`, by variant.
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
        """Fill ``results``; an empty dict adds nothing to the log."""
        self.results = {
            name: grouped(part.evaluate(size))
            for name, part in self.parts.items()
        }
        return {}

    def state(self) -> dict[str, list]:
        """The measurements so far, as tensors and builtins."""
        return {name: [_state(metric) for metric in part.metrics]
                for name, part in self.parts.items()}

    def restore(self, state: dict[str, list]) -> None:
        """Continue from a stored :meth:`state`."""
        for name, part in self.parts.items():
            for metric, known in zip(part.metrics, state[name]):
                _restore(metric, known)


@contextmanager
def _clock(name: str, seconds: dict[str, float]) -> Iterator[None]:
    """Measure the seconds of the body, including work on the device."""
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
