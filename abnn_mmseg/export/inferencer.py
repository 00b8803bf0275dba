"""An object that predicts images with uncertainty."""
import copy
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Callable, Optional, Union

import numpy as np
import torch
from mmengine.config import Config, ConfigDict
from mmengine.dataset import pseudo_collate
from mmengine.device import get_device
from mmseg.registry import DATASETS
from torch import nn

from abnn_mmseg.deploy.onnx import export_program
from abnn_mmseg.deploy.segmentor import channels_of
from abnn_mmseg.engine.loading import Paths, build_segmentor
from abnn_mmseg.evaluation.fields import class_logits
from abnn_mmseg.export.inputs import Frame, Frames, Input
from abnn_mmseg.export.pipeline import Loaded, Pipeline
from abnn_mmseg.export.result import MapResult
from abnn_mmseg.models.guaranteed import (
    current_guarantees,
    why_no_guarantee,
)
from abnn_mmseg.uncertainty import check_scores
from abnn_mmseg.uncertainty.guarantees import (
    ALARM_RISKS,
    SET_RISKS,
    Guarantee,
)
from abnn_mmseg.utils.configs import find_config, part_of
from abnn_mmseg.utils.console import progress
from abnn_mmseg.utils.threads import run_ahead


class ABNNInferencer:
    """Predictions and named maps for images, folders, globs and videos.

    Images are paths, arrays ``[H, W, C]`` as OpenCV reads them, tensors
    ``[C, H, W]`` as torchvision does, or PIL's. Results are NumPy arrays;
    :meth:`MapResult.tensors` gives them as tensors.

    The same image and the same seed give the same maps in any batch. Calls do
    not change the object, so threads may share it; it can be pickled for
    other processes.

    Args:
        config (str | Config): The ABNN config, or any mmseg config, whose
            maps are those of the single network.
        checkpoint (str, optional): The base, or a full checkpoint. Defaults
            to the config's ``load_from``.
        members (str | Sequence[str], optional): Member files.
        device (str, optional): Defaults to a GPU if there is one.
        scores (Sequence[str], optional): Overrides the config's scores.
    """

    def __init__(self,
                 config: Union[str, Path, Config],
                 checkpoint: Optional[str] = None,
                 members: Optional[Paths] = None,
                 device: Optional[str] = None,
                 scores: Optional[Sequence[str]] = None) -> None:
        if not isinstance(config, Config):
            config = Config.fromfile(find_config(config))
        checkpoint = checkpoint or config.get('load_from')
        files = [checkpoint] if checkpoint else []
        if members is not None:
            files += [members] if isinstance(members, (str, Path)) else list(
                members)
        self.cfg = config
        self.device = device or get_device()
        self.model = build_segmentor(config, files, self.device)
        if scores is not None:
            self.model.scores = check_scores(scores)
        self.pipeline = Pipeline(
            test_dataset(config).pipeline, channels_of(self.model))
        metainfo = _metainfo(config, self.model.num_classes)
        self.classes = metainfo['classes']
        self.palette = metainfo['palette']

    @property
    def scores(self) -> Sequence[str]:
        """Names of the maps of a result."""
        return self.model.scores

    @property
    def thresholds(self) -> dict[str, float]:
        """Thresholds that were chosen for the members, by score."""
        return self.model.posterior.thresholds

    @property
    def module(self) -> nn.Module:
        """The model and all its networks as a graph of ``torch.export``.

        It takes images of any size, uint8 ``[1, H, W, 3]``, BGR, and returns
        the mean probability and the maps, see :class:`DeployedSegmentor`. It
        can be compiled and traced. Each access exports the current posterior
        again, which takes a while.
        """
        model = self.model
        if torch.device(self.device).type != 'cpu':
            model = copy.deepcopy(model).cpu()
        return export_program(model).module().to(self.device)

    @property
    def guarantees(self) -> list[Guarantee]:
        """The guarantees of the label sets and alarms in results."""
        return current_guarantees(self.model)

    @property
    def missing(self) -> dict[str, str]:
        """Why results have no label sets, or no alarms."""
        reasons = {
            kind: why_no_guarantee(self.model, risks)
            for kind, risks in (('sets', SET_RISKS), ('alarms', ALARM_RISKS))}
        return {kind: why for kind, why in reasons.items() if why}

    def __call__(self,
                 inputs: Union[Input, Sequence[Input]],
                 batch_size: int = 1,
                 probability: bool = False) -> list[MapResult]:
        """Return all results in a list; :meth:`stream` yields them.

        On a terminal there is a progress bar for more than one input.
        """
        frames = Frames(inputs)
        results = self.stream(frames, batch_size, probability)
        if len(frames) > 1 and sys.stderr.isatty():
            results = progress(results, 'Inference', len(frames))
        return list(results)

    def stream(self,
               frames: Union[Frames, Input, Sequence[Input]],
               batch_size: int = 1,
               probability: bool = False) -> Iterator[MapResult]:
        """Yield the results one by one, in the order of the input."""
        if not isinstance(frames, Frames):
            frames = Frames(frames)
        return self.results(
            (partial(self.load, frame) for frame in frames), batch_size,
            probability)

    def load(self, frame: Frame) -> Loaded:
        """Read an image and run the config's test pipeline on it."""
        return self.pipeline.load(frame)

    def results(self,
                jobs: Iterable[Callable[[], Loaded]],
                batch_size: int = 1,
                probability: bool = False,
                ahead: Optional[int] = None) -> Iterator[MapResult]:
        """Results of images that threads load while the network works."""
        if batch_size < 1:
            raise ValueError(f'batch_size={batch_size} must be at least 1.')
        # A camera is not read ahead: its frames would be old.
        loaded = run_ahead(
            jobs, depth=batch_size + 2 if ahead is None else ahead)
        while batch := list(islice(loaded, batch_size)):
            samples = self.predict([item.data for item in batch])
            for item, sample in zip(batch, samples):
                result = to_result(item, sample, probability)
                result.thresholds = self.thresholds
                result.missing = self.missing
                yield result

    @torch.no_grad()
    def predict(self, data: list[dict]) -> list:
        """Predict packed inputs; return a ``SegDataSample`` for each."""
        if len({tuple(d['inputs'].shape) for d in data}) > 1:
            # Images of different sizes cannot be stacked.
            return [self.predict([d])[0] for d in data]
        return self.model.test_step(pseudo_collate(data))


def to_result(item: Loaded, sample, probability: bool = False) -> MapResult:
    """Convert a predicted ``SegDataSample`` to arrays."""

    def plane(field: str) -> np.ndarray:
        """A field of the sample, as an array ``[H, W]``."""
        return sample.get(field).data[0].cpu().numpy()

    def known(field: str) -> Optional[np.ndarray]:
        """A field of the sample, or None if it has none."""
        return plane(field) if field in sample else None

    maps = {
        score: sample.uncertainty.get(score)[0].float().cpu().numpy()
        for score in sorted(sample.uncertainty.keys())
    }
    mean = None
    if probability:
        logits = class_logits(sample.to_dict())
        mean = logits.softmax(0).unflatten(
            1, sample.seg_logits.shape).cpu().numpy()
    return MapResult(
        item.name,
        plane('pred_sem_seg').astype(np.int64),
        maps,
        image=item.image,
        ground_truth=known('gt_sem_seg'),
        anomaly=known('gt_anomaly'),
        probability=mean,
        guaranteed=_guaranteed(sample))


def _guaranteed(sample) -> dict[str, np.ndarray]:
    """Label sets and alarms by risk."""
    if 'guaranteed' not in sample:
        return {}
    found = {risk: plane.cpu().numpy()
             for risk, plane in sample.guaranteed.items()}
    return {risk: plane if risk in SET_RISKS else plane[0]
            for risk, plane in found.items()}


def _metainfo(cfg: Config, num_classes: int) -> dict:
    """Class names and palette of the config's test dataset."""
    dataset = dict(test_dataset(cfg), lazy_init=True, pipeline=[])
    known = DATASETS.build(dataset).metainfo
    classes = known.get('classes') or ()
    if len(classes) != num_classes:
        classes = [f'class {i}' for i in range(num_classes)]
    palette = known.get('palette') or ()
    if len(palette) != num_classes:
        generator = np.random.default_rng(0)
        palette = generator.integers(40, 230, (num_classes, 3)).tolist()
    return dict(classes=list(classes), palette=palette)


def test_dataset(cfg: Config) -> ConfigDict:
    """The test dataset of a config, without wrappers around it."""
    return unwrapped(part_of(cfg, 'test_dataloader').dataset)


def unwrapped(dataset: ConfigDict) -> ConfigDict:
    """The dataset inside wrappers such as ``RepeatDataset``."""
    while 'pipeline' not in dataset and 'dataset' in dataset:
        dataset = dataset.dataset
    return dataset
