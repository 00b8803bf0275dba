"""Views: flip and resize images, and undo it for logits."""
import math
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

import torch
from mmseg.models.utils import resize
from torch import Tensor

DIRECTIONS = dict(horizontal=-1, vertical=-2)


class View(NamedTuple):
    """How a network sees an image.

    Args:
        scale (float): Factor of the image's size. Defaults to 1.
        flip (str, optional): ``'horizontal'`` or ``'vertical'``.
    """
    scale: float = 1
    flip: Optional[str] = None

    def __str__(self) -> str:
        return f'x{self.scale:g}{" " + self.flip if self.flip else ""}'

    def look(self, images: Tensor) -> Tensor:
        """Flip and resize images."""
        if self.scale != 1:
            # sym_int and sym_max are int and max that a graph can hold.
            size = [torch.sym_max(1, torch.sym_int(self.scale * n + 0.5))
                    for n in images.shape[2:]]
            images = resize(images, size, mode='bilinear',
                            align_corners=False, warning=False)
        return self._flipped(images)

    def through(self, networks: Callable[[Tensor], Tensor],
                images: Tensor) -> Tensor:
        """Logits ``[n, B, C, H, W]`` of n networks that see this view.

        The view is undone, so the logits have the size of the images.
        """
        logits = self._flipped(networks(self.look(images)))
        if self.scale == 1 or logits.shape[-2:] == images.shape[2:]:
            return logits
        resized = resize(
            logits.flatten(0, 1), images.shape[2:], mode='bilinear',
            align_corners=False, warning=False)
        return resized.unflatten(0, logits.shape[:2])

    def _flipped(self, maps: Tensor) -> Tensor:
        return maps.flip(DIRECTIONS[self.flip]) if self.flip else maps


def make_views(views: Optional[dict]) -> list[View]:
    """The unchanged image, its flips, and both at every other scale.

    Args:
        views (dict, optional): ``flips``, some of ``'horizontal'`` and
            ``'vertical'``, and ``scales``, sizes besides 1. None is the
            unchanged image.
    """
    if views is None:
        return [View()]
    if not isinstance(views, dict) or set(views) - {'flips', 'scales'}:
        raise ValueError(
            f'views={views!r} of the posterior; write '
            "views=dict(flips=('horizontal', ), scales=(0.75, )), or None "
            'for the image as it is.')
    flips = _several(views.get('flips', ()), str)
    scales = _several(views.get('scales', ()), (int, float))
    for flip in flips:
        if flip not in DIRECTIONS:
            raise ValueError(f'flips={flips!r} of the posterior holds '
                             f'{flip!r}; write some of {tuple(DIRECTIONS)}.')
    if any(not 0 < scale < math.inf for scale in scales):
        raise ValueError(f'scales={scales!r} of the posterior must be '
                         'positive factors such as (0.75, 1.25).')
    others = [scale for scale in scales if scale != 1]
    return [View(scale, flip) for scale in (1, *others)
            for flip in (None, *flips)]


def _several(value: Any, kind: Any) -> tuple:
    return (value, ) if isinstance(value, kind) else tuple(value)


def assign_views(count: int, views: Sequence[View],
                 members: int = 1) -> list[View]:
    """One view for each of ``count`` networks.

    Network k belongs to member ``k % M`` and sees view ``k % V``. Whenever
    pairs of member and view would repeat, the view is shifted by one. So the
    first max(M, V) networks hold all members and all views, and M * V networks
    hold all pairs.
    """
    period = math.lcm(members, len(views))
    return [views[(k + k // period) % len(views)] for k in range(count)]
