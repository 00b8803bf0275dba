"""Convert images in memory, of any library, to BGR arrays."""
from typing import Any, Union

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from abnn_mmseg.export.volumes import Slice

Pixels = Union[np.ndarray, Tensor, Image.Image, Slice]
# Modes of PIL with one number per pixel that has more than 8 bits.
NUMBERS = {'I', 'F', 'I;16', 'I;16B', 'I;16L'}


def is_pixels(item: Any) -> bool:
    """Whether something is an image in memory, not the name of a file."""
    return isinstance(item, (np.ndarray, Tensor, Image.Image, Slice))


def to_array(image: Pixels, channels: int) -> np.ndarray:
    """An array ``[H, W, C]`` as of OpenCV: BGR if there are three channels.

    Args:
        image: An array, which is not changed; a tensor ``[C, H, W]``, RGB as
            of torchvision; a PIL image of any mode, which is rotated by its
            EXIF data; or a slice of a volume.
        channels (int): Channels of the model, for PIL images and slices.
    """
    if isinstance(image, np.ndarray):
        if image.ndim == 3 and image.shape[2] == 3 and image.dtype.kind == 'f':
            _check_range('array', float(image.max()))
        return image
    if isinstance(image, Tensor):
        return _of_tensor(image)
    if isinstance(image, Slice):
        return image.pixels(channels)
    return _of_pil(image, channels)


def split_batches(items: list) -> list:
    """Split tensors ``[B, C, H, W]`` into B images."""
    return [image for item in items for image in (
        item if isinstance(item, Tensor) and item.dim() == 4 else [item])]


def _of_tensor(image: Tensor) -> np.ndarray:
    if image.dim() != 3 or not image.numel():
        raise ValueError(
            f'the tensor is {list(image.shape)}; give [C, H, W] or '
            '[B, C, H, W], such as uint8 RGB as torchvision reads it.')
    if len(image) == 3 and image.is_floating_point():
        _check_range('tensor', float(image.max()))
    if image.dtype == torch.bfloat16:
        image = image.float()
    pixels = image.detach().cpu().numpy().transpose(1, 2, 0)
    return np.ascontiguousarray(
        pixels[..., ::-1] if len(image) == 3 else pixels)


def _check_range(kind: str, highest: float) -> None:
    """Raise ValueError for colours from 0 to 1, except for a black image."""
    if 0 < highest <= 1:
        raise ValueError(
            f'the {kind} has values up to {highest:.3g}, but models take 0 '
            'to 255; give uint8, or multiply it by 255.')


def _of_pil(image: Image.Image, channels: int) -> np.ndarray:
    image = ImageOps.exif_transpose(image)
    if image.mode in NUMBERS:
        return np.array(image)[..., None]
    if channels == 1:
        return np.array(image.convert('L'))[..., None]
    return np.ascontiguousarray(np.array(image.convert('RGB'))[..., ::-1])
