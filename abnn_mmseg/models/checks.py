"""Checks of the settings, inputs and outputs of a segmentor."""
from collections.abc import Iterable, Sequence
from typing import Union

import torch
from mmseg.structures import SegDataSample
from torch import Tensor

from abnn_mmseg.models.windows import check_windows
from abnn_mmseg.utils.choices import one_of


def check_test_cfg(test_cfg: dict) -> None:
    """Raise ValueError for an invalid ``test_cfg``."""
    mode = one_of(
        'test_cfg.mode', test_cfg.get('mode', 'whole'), ('whole', 'slide'))
    if mode == 'whole':
        return
    for name in ('crop_size', 'stride'):
        if name not in test_cfg:
            raise ValueError(f"test_cfg.mode='slide' needs {name}; write "
                             f'test_cfg=dict({name}=(512, 512), ...).')
    check_windows(test_cfg['crop_size'], test_cfg['stride'])


def check_temperature(temperature: Union[float, str]) -> Union[float, str]:
    """Raise ValueError unless it is positive, or ``'members'``."""
    if temperature != 'members' and (isinstance(temperature, str)
                                     or not 0 < temperature < float('inf')):
        raise ValueError(
            f'temperature={temperature!r} of the segmentor must be positive, '
            "1 for none, or 'members' for the one stored with them.")
    return temperature


def check_finite(inputs: Sequence[Tensor],
                 data_samples: Sequence[SegDataSample]) -> None:
    """Raise ValueError for NaN or inf, which argmax would hide.

    The host waits for the device here, once for a batch of images.

    Args:
        inputs (Sequence[Tensor]): The preprocessed images.
        data_samples (Sequence[SegDataSample]): With predictions and maps.
    """
    found = [_all_finite(inputs)]
    for sample in data_samples:
        found += [_all_finite([sample.seg_logits.data]),
                  _all_finite([sample.seg_logits.data,
                               *sample.uncertainty.values()])]
    given, *made = torch.stack(found).tolist()
    if not given:
        raise ValueError(
            'the input of the segmentor holds NaN or inf; check the '
            'images, and mean and std of the data_preprocessor.')
    for what, finite in (('prediction', made[::2]),
                         ('uncertainty of the draws', made[1::2])):
        if not all(finite):
            raise ValueError(
                f'the {what} holds NaN or inf; check the weights with '
                'DeterministicPosterior, lower alpha, or use a precision '
                'with a larger range.')


def _all_finite(tensors: Iterable[Tensor]) -> Tensor:
    return torch.stack([torch.isfinite(t).all() for t in tensors]).all()
