"""A figure with the maps of all methods for a few images."""
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Union

import numpy as np
from mmseg.datasets import BaseSegDataset

from abnn_mmseg.datasets.protocol import OOD
from abnn_mmseg.datasets.transforms import LoadAnomalyAnnotations
from abnn_mmseg.export.inputs import Frame, read_bgr
from abnn_mmseg.export.overview import write_overview
from abnn_mmseg.export.result import MapResult
from abnn_mmseg.uncertainty import map_name


def choose_images(dataset, images: Sequence[int], count: int) -> list[int]:
    """Split images into ``count`` parts; choose the most anomalous of each."""
    if not count:
        return []
    parts = np.array_split(np.asarray(images), min(count, len(images)))
    share = partial(anomaly_share, dataset)
    return [max(map(int, part), key=share) for part in parts]


def anomaly_share(dataset, number: int) -> float:
    """Share of anomalous pixels, from the label file alone.

    It is 0 for datasets without anomaly labels and for wrapped datasets.
    """
    if not isinstance(dataset, BaseSegDataset):
        return 0.
    load = next((step for step in dataset.pipeline.transforms
                 if isinstance(step, LoadAnomalyAnnotations)), None)
    if load is None:
        return 0.
    labels = load(dataset.get_data_info(number))['gt_anomaly_map']
    return float((labels == OOD).mean())


def write_figure(path: Union[str, Path], dataset, shown: Sequence[int],
                 maps: dict[str, dict], score: str) -> None:
    """Draw the maps, one row per image and one column per method.

    Args:
        path (str): PNG to write.
        dataset (Dataset): The dataset of the images.
        shown (Sequence[int]): Numbers of the images.
        maps (dict): For each method, ``'<number> <score>'`` and ``'<number>
            prediction'``. The figure has the prediction of the first method.
        score (str): The score of the maps.
    """
    known = {
        name: arrays for name, arrays in maps.items()
        if all(f'{number} {score}' in arrays for number in shown)
    }
    lacking = [name for name in maps if name not in known]
    if lacking:
        print(f'Not in {Path(path).name}: {", ".join(lacking)}; these '
              'rows were computed for a figure of other images or another '
              'score. Remove them from work_dir/rows to draw them.')
    maps = known
    if not maps or not shown:
        return
    results = []
    for number in shown:
        sample = dataset[number]['data_samples']
        first = next(iter(maps.values()))
        image = read_bgr(Frame(str(number), sample.img_path))
        anomaly = sample.get('gt_anomaly')
        results.append(MapResult(
            str(number),
            first[f'{number} prediction'].astype(np.int64),
            {map_name(name, score):
             arrays[f'{number} {score}'].astype(np.float32)
             for name, arrays in maps.items()},
            image=np.ascontiguousarray(image[..., ::-1]),
            ground_truth=sample.gt_sem_seg.data[0].numpy(),
            anomaly=None if anomaly is None else anomaly.data[0].numpy()))
    width = results[0].prediction.shape[1]
    write_overview(path, results, dataset.metainfo['palette'],
                   list(results[0].maps), zoom=min(1., 240 / width))
