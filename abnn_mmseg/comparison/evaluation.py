"""Test the variants of a method on a dataset; resumable at any image.

The loop is that of ``abnn test``, :class:`abnn_mmseg.engine.tester.Tester`.
A comparison adds model and evaluator of the variants, and a hook that stores
unfinished work.
"""
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from mmengine.dataset import pseudo_collate
from mmengine.hooks import Hook
from mmseg.structures import SegDataSample
from torch.utils.data import DataLoader

from abnn_mmseg.comparison.variants import VariantEvaluator, VariantModel
from abnn_mmseg.engine.tester import Tester
from abnn_mmseg.utils.checkpoints import read_checkpoint
from abnn_mmseg.utils.console import progress_bar
from abnn_mmseg.utils.files import atomic_path

DISAGREEMENT = ('mutual_information', 'variance')
# Seconds between two saves of unfinished work.
SAVE_EVERY = 60.


class Evaluation(Hook):
    """Evaluates all variants in one pass over the images, and resumes it.

    Args:
        tester (Tester): The tester of the method.
        variants (dict): See :class:`VariantModel`.
        dataset (Dataset): Packs inputs with their ground truth.
        metrics (Sequence[dict]): Configs of metrics.
        images (Sequence[int]): Numbers of the images to evaluate.
        shown (Sequence[int]): Numbers of the images whose maps are kept.
        score (str): The score of these maps.
        state_file (Path): File of the unfinished work.
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
        # Workers would take processors from the passes that are timed.
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
        """Keep the maps of an image; save the work from time to time."""
        number = self.images[self.done]
        if number in self.shown:
            for name, sample in zip(self.model.variants, outputs):
                self._keep(name, number, sample)
        self.done += 1
        self._show(self.done)
        # All metrics include this image already.
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
            # Disagreement of one network is only rounding errors.
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
