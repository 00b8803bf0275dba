"""The result of one image as plain arrays, for every posterior."""
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

from abnn_mmseg.uncertainty.guarantees import (
    ALARM_RISKS,
    SET_RISKS,
    first_of,
)


class MapTensors(NamedTuple):
    """Prediction, maps and probability of a :class:`MapResult`."""
    prediction: Tensor
    maps: dict[str, Tensor]
    probability: Optional[Tensor]


@dataclass(repr=False)
class MapResult:
    """Prediction and named maps of one image.

    Args:
        name: Path of the image below the input folder, without suffix and
            with forward slashes, such as ``'a/b/000012'``. Files written for
            the image mirror it.
        prediction: Class ids, [H, W].
        maps: Named scores, each float32 [H, W]; higher is more uncertain.
        image: RGB, uint8 [H, W, 3].
        ground_truth: Class ids, [H, W]; 255 is void.
        anomaly: uint8 [H, W]: 0 in-distribution, 1 anomaly, 255 void.
        probability: Mean probability, [C, H, W].
        thresholds: Lowest value of an anomaly, by score.
        guaranteed: Label sets [C, H, W] and alarms [H, W], bool, by risk,
            see :class:`Guarantee`.
        missing: Why there are no label sets, or no alarms, by ``'sets'`` and
            ``'alarms'``.
    """
    name: str
    prediction: np.ndarray
    maps: dict[str, np.ndarray] = field(default_factory=dict)
    image: Optional[np.ndarray] = None
    ground_truth: Optional[np.ndarray] = None
    anomaly: Optional[np.ndarray] = None
    probability: Optional[np.ndarray] = None
    thresholds: dict[str, float] = field(default_factory=dict)
    guaranteed: dict[str, np.ndarray] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        path = PurePosixPath(self.name)
        if not path.name or path.is_absolute() or '..' in path.parts:
            raise ValueError(
                f'name={self.name!r} must be a path below the output folder, '
                "such as 'a/b/000012'.")
        self._check_shapes()

    def __repr__(self) -> str:
        height, width = self.prediction.shape
        return (f'MapResult({self.name!r}, {height}x{width}, '
                f'maps={list(self.maps)})')

    def _check_shapes(self):
        shape = self.prediction.shape
        if len(shape) != 2:
            raise ValueError(f'{self.name!r}: the prediction must be [H, W], '
                             f'got {list(shape)}.')
        planes: dict[str, Optional[np.ndarray]] = {
            f'map {key!r}': value for key, value in self.maps.items()}
        planes.update({f'guaranteed {risk}': plane.reshape(-1, *plane.shape[
            -2:])[0] for risk, plane in self.guaranteed.items()})
        planes['ground truth'] = self.ground_truth
        planes['anomaly'] = self.anomaly
        planes['image'] = None if self.image is None else self.image[..., 0]
        for title, plane in planes.items():
            if plane is not None and plane.shape != shape:
                raise ValueError(
                    f'{self.name!r}: the {title} is {list(plane.shape)} but '
                    f'the prediction is {list(shape)}; all must have the '
                    'size of the image.')

    def map(self, score: str) -> np.ndarray:
        """The map of a score; raise ValueError if there is none."""
        if score not in self.maps:
            raise ValueError(
                f'{self.name!r} has no map {score!r}; it has '
                f'{sorted(self.maps)}. Ask the model for it by its name in '
                "`scores`.")
        return self.maps[score]

    def tensors(self) -> 'MapTensors':
        """Prediction, maps and probability as tensors in the same memory."""
        return MapTensors(
            torch.from_numpy(self.prediction),
            {name: torch.from_numpy(values)
             for name, values in self.maps.items()},
            None if self.probability is None else torch.from_numpy(
                self.probability))

    def mask(self, score: str) -> np.ndarray:
        """Where the map reaches its threshold: anomalies, bool [H, W]."""
        if score not in self.thresholds:
            raise ValueError(
                f'{self.name!r} has no threshold of {score!r}; choose one '
                'with `abnn members threshold CONFIG BASE MEMBERS '
                '--target-fpr 0.05`, which stores it with the members.')
        return self.map(score) >= self.thresholds[score]

    @property
    def label_set(self) -> np.ndarray:
        """Which classes the set of each pixel holds, bool [C, H, W]; that of
        the risk ``label-set``, or else of ``coverage``."""
        return self._first(SET_RISKS, 'sets', 'label set')

    @property
    def set_size(self) -> np.ndarray:
        """How many classes the set of each pixel holds, uint8 [H, W]."""
        return self.label_set.sum(0, dtype=np.uint8)

    @property
    def alarm(self) -> np.ndarray:
        """Pixels that raise the alarm, bool [H, W]; that of the risk
        ``false-alarm``, or else of ``miss``."""
        return self._first(ALARM_RISKS, 'alarms', 'alarm')

    def _first(self, risks: Sequence[str], kind: str,
               name: str) -> np.ndarray:
        risk = first_of(risks, self.guaranteed)
        if risk is None:
            why = self.missing.get(kind, 'no guarantee came with it')
            raise ValueError(f'{self.name!r} has no {name} with a guarantee: '
                             f'{why}.')
        return self.guaranteed[risk]
