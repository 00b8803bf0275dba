"""Draw maps beside the prediction of mmseg's inference functions."""
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Optional, Union

import mmcv
import numpy as np
from mmseg.structures import SegDataSample

from abnn_mmseg.engine.hooks import MapVisualizationHook
from abnn_mmseg.models.segmentor import BayesianSegmentor


def draw_maps(model: BayesianSegmentor,
              img: Union[str, Path, np.ndarray],
              result: SegDataSample,
              scores: Optional[Sequence[str]] = None,
              scale: Optional[Mapping[str, tuple[float, float]]] = None,
              max_side: int = 640,
              out_file: Union[None, str, Path] = None) -> np.ndarray:
    """Draw image, prediction and maps side by side.

    It takes the arguments of mmseg's ``show_result_pyplot``, which draws only
    the prediction::

        model = init_model('my_abnn.py', 'my_checkpoint.pth')
        result = inference_model(model, 'street.png')
        draw_maps(model, 'street.png', result, out_file='maps.png')

    Args:
        model (BayesianSegmentor): The result of mmseg's ``init_model``.
        img (str | np.ndarray): The image file, or its RGB pixels.
        result (SegDataSample): The result of mmseg's ``inference_model``.
        scores (Sequence[str], optional): Maps to draw. Defaults to all.
        scale (dict, optional): See :class:`MapVisualizationHook`.
        max_side (int): Longest side of a panel. Defaults to 640.
        out_file (str, optional): Write the picture to this file.

    Returns:
        np.ndarray: The picture, RGB.
    """
    hook = MapVisualizationHook(
        scores=scores, scale=scale, max_side=max_side)
    pixels = img if isinstance(img, np.ndarray) else mmcv.imread(
        str(img), channel_order='rgb')
    picture = hook.compose(pixels, result, model.dataset_meta or {})
    if out_file is not None:
        mmcv.imwrite(np.ascontiguousarray(picture[..., ::-1]), str(out_file))
    return picture
