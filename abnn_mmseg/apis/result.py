"""What one image gives: plain arrays, whatever posterior made them."""
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Optional

import numpy as np


@dataclass
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
    """
    name: str
    prediction: np.ndarray
    maps: dict[str, np.ndarray] = field(default_factory=dict)
    image: Optional[np.ndarray] = None
    ground_truth: Optional[np.ndarray] = None
    anomaly: Optional[np.ndarray] = None
    probability: Optional[np.ndarray] = None

    def __post_init__(self):
        path = PurePosixPath(self.name)
        if not path.name or path.is_absolute() or '..' in path.parts:
            raise ValueError(
                f'name={self.name!r} must be a path below the output folder, '
                "such as 'a/b/000012'.")
        self._check_shapes()

    def _check_shapes(self):
        shape = self.prediction.shape
        if len(shape) != 2:
            raise ValueError(f'{self.name!r}: the prediction must be [H, W], '
                             f'got {list(shape)}.')
        planes = {f'map {key!r}': value for key, value in self.maps.items()}
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
        """The map of a score, or a sentence on which ones there are."""
        if score not in self.maps:
            raise ValueError(
                f'{self.name!r} has no map {score!r}; it has '
                f'{sorted(self.maps)}. Ask the model for it by its name in '
                "`scores`.")
        return self.maps[score]
