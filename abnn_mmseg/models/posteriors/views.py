"""Views of an image: flipped, resized, and undone in the logits."""
from collections.abc import Sequence
from typing import (
    Callable,
    NamedTuple,
    Optional,
    Union,
)

from mmseg.models.utils import resize
from torch import Tensor

DIRECTIONS = dict(horizontal=-1, vertical=-2)


class View(NamedTuple):
    """How a network sees an image.

    Args:
        scale (float): Its size, 1 for its own.
        flip (str, optional): ``'horizontal'`` or ``'vertical'``.
    """
    scale: float = 1
    flip: Optional[str] = None

    def __str__(self) -> str:
        return f'x{self.scale:g}{" " + self.flip if self.flip else ""}'

    def look(self, images: Tensor) -> Tensor:
        """The images as a network sees them."""
        if self.scale != 1:
            size = [max(1, round(self.scale * n)) for n in images.shape[2:]]
            images = resize(images, size, mode='bilinear',
                            align_corners=False, warning=False)
        return self._flipped(images)

    def through(self, networks: Callable[[Tensor], Tensor],
                sizes: Optional[dict[tuple, tuple]],
                images: Tensor) -> Tensor:
        """Logits ``[n, B, C, H, W]`` of n networks that see the images so.

        They have the size of the images, or the one that the first view
        puts into ``sizes``.
        """
        logits = self._flipped(networks(self.look(images)))
        shape, own = tuple(images.shape[2:]), tuple(logits.shape[-2:])
        size = shape if sizes is None else sizes.setdefault(shape, own)
        if own == size:
            return logits
        resized = resize(logits.flatten(0, 1), size, mode='bilinear',
                         align_corners=False, warning=False)
        return resized.unflatten(0, logits.shape[:2])

    def _flipped(self, maps: Tensor) -> Tensor:
        return maps.flip(DIRECTIONS[self.flip]) if self.flip else maps


def make_views(flips: Union[str, Sequence[str]] = ('horizontal', ),
               scales: Union[float, Sequence[float]] = ()) -> list[View]:
    """The image as it is, its flips, and the same at every other scale.

    Args:
        flips (Sequence[str]): Of ``'horizontal'`` and ``'vertical'``.
        scales (Sequence[float]): Sizes besides 1.
    """
    flips = (flips, ) if isinstance(flips, str) else flips
    scales = (scales, ) if isinstance(scales, (int, float)) else scales
    for flip in flips:
        if flip not in DIRECTIONS:
            raise ValueError(f'flips={flips!r} of the posterior holds '
                             f'{flip!r}; write of {tuple(DIRECTIONS)}.')
    if any(not scale > 0 for scale in scales):
        raise ValueError(f'scales={scales!r} of the posterior must be '
                         'positive factors such as (0.75, 1.25).')
    others = [scale for scale in scales if scale != 1]
    return [View(scale, flip) for scale in (1, *others)
            for flip in (None, *flips)]
