"""Load and pack labels, with out-of-distribution pixels."""
import io
from typing import Optional

import cv2
import mmcv
import numpy as np
from mmcv.transforms import to_tensor
from mmengine import fileio
from mmengine.structures import PixelData
from mmseg.datasets.transforms import LoadAnnotations, PackSegInputs
from mmseg.registry import TRANSFORMS
from PIL import Image

from abnn_mmseg.datasets.protocol import UNKNOWN

AGAIN = 'Download or copy it again.'


def read_image(path: str, backend_args: Optional[dict] = None) -> np.ndarray:
    """Read an image as mmcv does, but refuse truncated files.

    Some versions of OpenCV fill the missing part of a JPEG with grey, and
    Pillow accepts a PNG without its end. Only files that both accept pass.
    """
    try:
        data = fileio.get(path, backend_args)
        Image.open(io.BytesIO(data)).load()
        image = mmcv.imfrombytes(data)
    except Exception as error:
        raise OSError(f'Cannot read image {path}: {error}. {AGAIN}') from error
    if image is None:
        raise OSError(f'Cannot read image {path}: damaged file. {AGAIN}')
    return image


@TRANSFORMS.register_module()
class LoadAnomalyAnnotations(LoadAnnotations):
    """Load raw labels as a class map and an anomaly map.

    It replaces mmseg's ``LoadAnnotations`` for an ``AnomalySegDataset``:

    - ``gt_seg_map``: train ids; void *and* OOD pixels are 255, so losses and
      ``IoUMetric`` ignore them;
    - ``gt_anomaly_map``: 0 in-distribution, 1 OOD, 255 void.

    Both are in ``seg_fields``, so every geometric transform of mmseg is
    applied to them. A raw id that is not in the dataset's protocol, or a label
    of another size than its image, is a ``ValueError``.

    Args:
        backend_args (dict, optional): mmengine file backend.
    """

    def __init__(self, backend_args: Optional[dict] = None) -> None:
        super().__init__(backend_args=backend_args)

    def transform(self, results: dict) -> dict:
        """Add both maps to the results.

        An image given to mmseg's ``inference_model`` comes from no dataset
        and has no labels, so it passes unchanged.
        """
        if 'seg_fields' in results:
            self._load(results)
        return results

    def _load(self, results: dict) -> None:
        path = self._label_path(results)
        raw = self._read(path)
        # ``img`` may have been resized already.
        size = tuple(results.get('ori_shape', raw.shape)[:2])
        if raw.shape != size:
            raise ValueError(
                f'Label {path} is {raw.shape[1]}x{raw.shape[0]} but its image '
                f'{results.get("img_path")} is {size[1]}x{size[0]} (width x '
                'height).')
        seg, anomaly = self._translate(raw, results['label_tables'], path)
        results['gt_seg_map'] = seg
        results['gt_anomaly_map'] = anomaly
        results['seg_fields'] += ['gt_seg_map', 'gt_anomaly_map']

    @staticmethod
    def _label_path(results: dict) -> str:
        if 'label_tables' not in results:
            raise ValueError(
                'LoadAnomalyAnnotations needs a dataset with a label protocol '
                '(AnomalySegDataset or a subclass). Use LoadAnnotations with '
                'other datasets.')
        if 'seg_map_path' not in results:
            raise ValueError(
                f'Image {results.get("img_path")} has no label: give '
                'data_prefix.seg_map_path, or take LoadAnomalyAnnotations out '
                'of the pipeline.')
        return results['seg_map_path']

    def _read(self, path: str) -> np.ndarray:
        try:
            data = fileio.get(path, self.backend_args)
            raw = np.asarray(Image.open(io.BytesIO(data)))
        except Exception as error:
            raise OSError(
                f'Cannot read label {path}: {error}. {AGAIN}') from error
        if raw.ndim == 3:
            # Ids saved as grey RGB(A) or grey with alpha.
            colours = raw[..., :3] if raw.shape[2] > 2 else raw[..., :1]
            if (colours != colours[..., :1]).any():
                raise ValueError(f'Label {path} is a colour image; labels '
                                 'must hold one id a pixel.')
            raw = colours[..., 0]
        return raw

    @staticmethod
    def _translate(raw: np.ndarray, tables: np.ndarray, path: str) -> list:
        # 16-bit files may hold larger ids, so they are checked before a cast.
        if raw.dtype == np.uint8 or (raw.min() >= 0 and raw.max() <= 255):
            raw = np.ascontiguousarray(raw, np.uint8)
            maps = [cv2.LUT(raw, table) for table in tables]
            if not (maps[1] == UNKNOWN).any():
                return maps
        known = np.flatnonzero(tables[1] != UNKNOWN)
        strange = np.setdiff1d(raw, known)
        ids = ', '.join(map(str, strange[:10]))
        raise ValueError(
            f'Label {path} has raw ids that its protocol does not know: {ids}'
            f'{", ..." if len(strange) > 10 else ""}. Known ids: '
            f'{", ".join(map(str, known))}.')

    def __repr__(self) -> str:
        return f'{type(self).__name__}(backend_args={self.backend_args})'


@TRANSFORMS.register_module()
class PackAnomalyInputs(PackSegInputs):
    """``PackSegInputs`` that also packs ``gt_anomaly``, uint8 [1, H, W]."""

    def transform(self, results: dict) -> dict:
        """Pack the image, its labels and its meta information."""
        packed = super().transform(results)
        if 'gt_anomaly_map' in results:
            data = to_tensor(results['gt_anomaly_map'][None].copy())
            packed['data_samples'].set_data(
                dict(gt_anomaly=PixelData(data=data)))
        return packed
