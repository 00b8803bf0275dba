"""A hook that draws uncertainty maps while a model is validated or tested."""
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Optional

import mmcv
import numpy as np
from mmengine.fileio import get
from mmengine.hooks import Hook
from mmengine.runner import Runner
from mmseg.registry import HOOKS
from mmseg.structures import SegDataSample

from abnn_mmseg.uncertainty import SMALL_SCORES, check_scores, score_range
from abnn_mmseg.utils.colours import (
    colourise,
    palette_table,
    range_of,
    scale_of,
    shrunk,
    with_colour_bar,
)

Range = tuple[float, float]


@HOOKS.register_module()
class MapVisualizationHook(Hook):
    """Draw maps with MMEngine's visualizer, for any of its backends.

    A picture shows image, ground truth, prediction and maps side by side,
    every map with its colour bar on a scale that is the same for all images.
    Validation pictures have the step of the training, so a backend with a
    slider, such as TensorBoard, shows how the maps of an image change. Under a
    launcher only the first process draws, and only the images that it tests.

    Args:
        interval (int): Draw every n-th image. Defaults to 50.
        scores (Sequence[str], optional): The maps to draw. Defaults to all
            of the segmentor.
        scale (dict, optional): Lowest and highest colour of a score, such as
            ``dict(energy=(-20, 0))``. Defaults to the range that the score
            can take. If it has none, or usually fills little of it, the range
            of the first picture is used.
        max_side (int): Longest side of a panel; larger ones are shrunk.
            Defaults to 640.
        backend_args (dict, optional): Options of the file backend that reads
            images.
    """

    def __init__(self,
                 interval: int = 50,
                 scores: Optional[Sequence[str]] = None,
                 scale: Optional[Mapping[str, Range]] = None,
                 max_side: int = 640,
                 backend_args: Optional[dict] = None) -> None:
        if not isinstance(interval, int) or interval < 1:
            raise ValueError(f'interval={interval!r} of MapVisualizationHook '
                             'must be a positive integer.')
        self.interval = interval
        self.scores = None if scores is None else check_scores(scores)
        self.scale = dict(scale or {})
        check_scores(self.scale)
        self.max_side = max_side
        self.backend_args = backend_args
        self._seen = 0

    def before_val_epoch(self, runner: Runner) -> None:
        """Count images from zero."""
        self._seen = 0

    def before_test_epoch(self, runner: Runner) -> None:
        """Count images from zero."""
        self._seen = 0

    def after_val_iter(self, runner: Runner, batch_idx: int,
                       data_batch: Optional[dict] = None,
                       outputs: Sequence[SegDataSample] = ()) -> None:
        """Draw the validation images that are due."""
        self._draw(runner, 'val', outputs, runner.iter)

    def after_test_iter(self, runner: Runner, batch_idx: int,
                        data_batch: Optional[dict] = None,
                        outputs: Sequence[SegDataSample] = ()) -> None:
        """Draw the test images that are due."""
        self._draw(runner, 'test', outputs, 0)

    def _draw(self, runner: Runner, mode: str,
              samples: Sequence[SegDataSample], step: int) -> None:
        for sample in samples:
            number, self._seen = self._seen, self._seen + 1
            if number % self.interval:
                continue
            # The number tells images of one name in two folders apart.
            stem = Path(sample.img_path).stem
            runner.visualizer.add_image(
                f'{mode}_{number:05d}_{stem}',
                self.picture(sample, runner.visualizer.dataset_meta or {}),
                step)

    def picture(self, sample: SegDataSample, meta: dict) -> np.ndarray:
        """Image, ground truth, prediction and maps in one row, RGB."""
        image = mmcv.imfrombytes(
            get(sample.img_path, backend_args=self.backend_args),
            channel_order='rgb')
        return self.compose(image, sample, meta)

    def compose(self, image: np.ndarray, sample: SegDataSample,
                meta: dict) -> np.ndarray:
        """As :meth:`picture`, for an RGB image in memory."""
        panels = [shrunk(image, self.max_side)]
        table = palette_table(meta.get('palette') or ())
        for field in ('gt_sem_seg', 'pred_sem_seg'):
            if field in sample:
                ids = sample.get(field).data[0].cpu().numpy()
                panels.append(table[
                    shrunk(ids.astype(np.uint8), self.max_side)])
        for score, values in self._maps(sample).items():
            scale = self._range(
                score, values, sample.seg_logits.data.shape[0])
            panels.append(with_colour_bar(
                colourise(shrunk(values, self.max_side), scale), scale,
                score))
        return np.hstack([
            np.pad(panel, ((4, 4), (4, 4), (0, 0)), constant_values=255)
            for panel in panels
        ])

    def _maps(self, sample: SegDataSample) -> dict[str, np.ndarray]:
        maps = sample.uncertainty
        known: list[str] = sorted(maps.keys())
        missing = sorted(set(self.scores or ()) - set(known))
        if missing:
            raise ValueError(
                f'MapVisualizationHook should draw {missing[0]!r}, but the '
                f'segmentor makes {known}; add it to `scores` of the model.')
        return {
            score: maps.get(score)[0].float().cpu().numpy()
            for score in self.scores or known
        }

    def _range(self, score: str, values: np.ndarray, channels: int) -> Range:
        # A sigmoid head has one channel and two classes.
        natural = score_range(score, max(2, channels))
        if score not in self.scale and (
                natural is None or score in SMALL_SCORES):
            self.scale[score] = scale_of(
                [range_of(values)], natural is not None)
        found = self.scale.get(score) or natural
        assert found is not None
        return found
