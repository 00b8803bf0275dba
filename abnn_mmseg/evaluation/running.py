"""Metrics in constant memory that count every image once."""
import logging
import os.path as osp
from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import Any, Optional

from mmengine.dist import collect_results, get_dist_info, is_main_process
from mmengine.evaluator import BaseMetric
from mmengine.logging import print_log

from abnn_mmseg.evaluation.histograms import ScoreHistogram

# Of each name a ScoreHistogram, or a tensor of integers.
Totals = dict[str, Any]


class RunningMetric(BaseMetric):
    """Keeps a few numbers per image, and running totals over all images.

    The numbers are in ``self.results``, as in every mmengine metric. Totals
    must merge exactly, as histograms and integer tensors do, so that the
    values do not depend on the number of processes.

    A distributed sampler repeats images until all ranks have equally many.
    mmengine drops repeated results, and the totals must not contain them. With
    DefaultSampler image j of rank r is number ``j * world_size + r``, so only
    the last image of a rank can be a repetition. It stays in ``_last`` until
    the next one, or until ``evaluate`` knows the number of images.

    Args:
        plot_dir (str, optional): Folder for the curves, as PNG and JSON.
            Defaults to None: no curves are saved.
        **kwargs: See :class:`mmengine.evaluator.BaseMetric`.
    """

    def __init__(self, plot_dir: Optional[str] = None, **kwargs) -> None:
        super().__init__(**kwargs)
        self.plot_dir = plot_dir
        self._total: Totals = {}
        self._last: Totals = {}

    @abstractmethod
    def measure(self, sample: dict) -> tuple[dict, Totals]:
        """Numbers of one image, and its part of the totals."""

    @abstractmethod
    def summarize(self, results: list, totals: Totals) -> dict[str, float]:
        """The metrics, from all images' numbers and the totals."""

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Measure each image of a batch."""
        for sample in data_samples:
            numbers, totals = self.measure(sample)
            self._total = merge_totals(self._total, self._last)
            self._last = totals
            self.results.append(numbers)

    def evaluate(self, size: int) -> dict:
        """Sum the totals of all processes; compute metrics on the first."""
        rank, world_size = get_dist_info()
        number = (len(self.results) - 1) * world_size + rank
        if number < size:
            self._total = merge_totals(self._total, self._last)
        part = {name: total.cpu() for name, total in self._total.items()}
        # mmengine itself uses collect_dir right afterwards.
        folder = self.collect_dir and osp.join(self.collect_dir, 'totals')
        parts = collect_results([part], world_size, self.collect_device,
                                folder)
        self._total = reduce(merge_totals, parts) if is_main_process() else {}
        metrics = super().evaluate(size)
        self._total, self._last = {}, {}
        return metrics

    def compute_metrics(self, results: list) -> dict[str, float]:
        """Metrics of the whole set; runs on the main process only."""
        return self.summarize(results, self._total)

    def state_dict(self) -> dict:
        """The measurements so far, as tensors and builtins."""
        return dict(
            results=self.results,
            total=_encode(self._total),
            last=_encode(self._last))

    def load_state_dict(self, state: dict) -> None:
        """Continue from a stored :meth:`state_dict`."""
        self.results = state['results']
        self._total = _decode(state['total'])
        self._last = _decode(state['last'])

    def warn(self, message: str) -> None:
        """Log a warning with the name of the metric."""
        print_log(
            f'{type(self).__name__}: {message}',
            logger='current',
            level=logging.WARNING)


def merge_totals(one: Totals, other: Totals) -> Totals:
    """Totals of two parts of the images; either may be empty."""
    if not one or not other:
        return one or other
    return {
        name: total.merge(other[name]) if isinstance(total, ScoreHistogram)
        else total + other[name]
        for name, total in one.items()
    }


def _encode(totals: Totals) -> dict:
    return {
        name: vars(total.cpu()) if isinstance(total, ScoreHistogram)
        else total.cpu()
        for name, total in totals.items()
    }


def _decode(state: dict) -> Totals:
    return {
        name: ScoreHistogram(**value) if isinstance(value, dict) else value
        for name, value in state.items()
    }
