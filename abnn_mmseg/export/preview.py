"""A small result of a large image, gathered tile by tile."""
from typing import Optional

import numpy as np

from abnn_mmseg.export.pipeline import Loaded, every_nth
from abnn_mmseg.export.result import MapResult
from abnn_mmseg.export.tile_grid import Tile

PREDICTION = 'prediction'
PROBABILITY = 'probability'
# Prefix of the name of a plane, before the risk.
GUARANTEED = 'guaranteed '


def more_planes(part: MapResult) -> dict[str, np.ndarray]:
    """Probability, label sets and alarms of a tile, channels last."""
    planes = {} if part.probability is None else {
        PROBABILITY: part.probability.transpose(1, 2, 0)}
    planes.update({
        f'{GUARANTEED}{risk}': np.moveaxis(plane, 0, -1)
        if plane.ndim == 3 else plane
        for risk, plane in part.guaranteed.items()})
    return planes


class Preview:
    """Every n-th pixel of the maps of an image.

    Args:
        size (tuple[int, int]): Height and width of the image.
        side (int): The most pixels per side.
    """

    def __init__(self, size: tuple[int, int], side: int) -> None:
        self.side = side
        self.step = -(-max(size) // side)
        self.size = tuple(-(-side // self.step) for side in size)
        self.planes: dict[str, np.ndarray] = {}

    def put(self, tile: Tile, planes: dict[str, np.ndarray]) -> None:
        """Keep every n-th pixel of the planes ``[H, W, ...]`` of a tile."""
        own, target = zip(*(
            (slice(-span.start % self.step, None, self.step),
             slice(-(-span.start // self.step), -(-span.stop // self.step)))
            for span in (tile.rows, tile.columns)))
        for name, values in planes.items():
            if name not in self.planes:
                self.planes[name] = np.empty(
                    self.size + values.shape[2:], values.dtype)
            # Pictures and tables cannot hold NaN.
            self.planes[name][target] = np.nan_to_num(values[own])

    def result(self, loaded: Loaded) -> MapResult:
        """The result, with the picture and, if known, the ground truth."""
        maps = dict(self.planes)
        probability = maps.pop(PROBABILITY, None)
        guaranteed = {name: maps.pop(name) for name in list(maps)
                      if name.startswith(GUARANTEED)}
        sample = loaded.data.get('data_samples')

        def known(field: str) -> Optional[np.ndarray]:
            """A smaller copy of a field, or None if there is none."""
            if sample is None or field not in sample:
                return None
            return every_nth(sample.get(field).data[0].numpy(), self.side)

        return MapResult(
            loaded.name, maps.pop(PREDICTION), maps, image=loaded.image,
            ground_truth=known('gt_sem_seg'), anomaly=known('gt_anomaly'),
            probability=(None if probability is None else
                         probability.transpose(2, 0, 1)),
            guaranteed={
                name[len(GUARANTEED):]: np.moveaxis(plane, -1, 0)
                if plane.ndim == 3 else plane
                for name, plane in guaranteed.items()})
