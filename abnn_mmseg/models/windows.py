"""Sliding windows over an image, as in mmseg's slide inference."""
from collections.abc import Sequence
from typing import Callable, Optional

from torch import Tensor

Window = tuple[slice, slice]


def check_windows(crop_size: Sequence[int], stride: Sequence[int]) -> None:
    """Raise ValueError unless windows can cover an image."""
    for name, sides in dict(crop_size=crop_size, stride=stride).items():
        if any(not isinstance(side, int) or side < 1 for side in sides):
            raise ValueError(f'{name}={tuple(sides)} of test_cfg must be '
                             'two integers of at least 1.')
    if any(step > side for side, step in zip(crop_size, stride)):
        raise ValueError(
            f'stride={tuple(stride)} of test_cfg is larger than crop_size='
            f'{tuple(crop_size)}, so pixels between windows would be left '
            'out; write a stride that is at most the crop size.')


def slides(test_cfg: Optional[dict]) -> bool:
    """Whether a ``test_cfg`` asks for sliding windows."""
    return (test_cfg or {}).get('mode', 'whole') == 'slide'


def windows_of(size: tuple[int, ...],
               test_cfg: Optional[dict]) -> list[Window]:
    """The windows of an image that a ``test_cfg`` asks for."""
    if test_cfg is None or not slides(test_cfg):
        return make_windows(size, size, size)
    return make_windows(size, test_cfg['crop_size'], test_cfg['stride'])


def make_windows(size: tuple[int, ...], crop_size: tuple[int, ...],
                 stride: tuple[int, ...]) -> list[Window]:
    """Rows and columns of all windows, row by row."""
    rows, columns = (window_slices(*sizes)
                     for sizes in zip(size, crop_size, stride))
    return [(row, column) for row in rows for column in columns]


def window_slices(size: int, crop_size: int, stride: int) -> list[slice]:
    """The windows along one axis; the last is shifted back to its end."""
    count = max(size - crop_size + stride - 1, 0) // stride + 1
    ends = [min(i * stride + crop_size, size) for i in range(count)]
    return [slice(max(end - crop_size, 0), end) for end in ends]


def crop(images: Tensor, window: Window) -> Tensor:
    """The part of images that a window covers."""
    return images[(..., *window)]


def stitch(network: Callable[[Tensor], Tensor], images: Tensor,
           windows: list[Window]) -> Tensor:
    """Logits of a whole image: the mean over the windows of each pixel."""
    if len(windows) == 1:
        return network(images)
    total: Optional[Tensor] = None
    count = images.new_zeros(images.shape[2:])
    for window in windows:
        logits = network(crop(images, window))
        if total is None:
            total = logits.new_zeros(logits.shape[:-2] + images.shape[2:])
        total[(..., *window)] += logits
        count[window] += 1
    assert total is not None
    return total / count
