"""Test-time augmentation: one network, several views of the image."""
from functools import partial
from typing import Dict, Iterator, Optional, Sequence

from mmseg.models.utils import resize
from mmseg.registry import MODELS
from torch import Tensor

from .base import Forward, Networks, Posterior

DIRECTIONS = dict(horizontal=-1, vertical=-2)


@MODELS.register_module()
class TTAPosterior(Posterior):
    """The network on flipped and resized images, undone in its logits.

    Network 0 sees the image as it is; then come its flips, then the same for
    every other scale.

    Args:
        flips (Sequence[str]): Of ``'horizontal'`` and ``'vertical'``.
            Defaults to ``('horizontal', )``.
        scales (Sequence[float]): Sizes besides 1. Defaults to none.
    """

    def __init__(self,
                 flips: Sequence[str] = ('horizontal', ),
                 scales: Sequence[float] = ()) -> None:
        for flip in flips:
            if flip not in DIRECTIONS:
                raise ValueError(f'flips={flips!r} of TTAPosterior holds '
                                 f'{flip!r}; write of {tuple(DIRECTIONS)}.')
        if any(not scale > 0 for scale in scales):
            raise ValueError(f'scales={scales!r} of TTAPosterior must be '
                             'positive factors such as (0.75, 1.25).')
        others = [scale for scale in scales if scale != 1]
        self.views = [(scale, flip) for scale in (1, *others)
                      for flip in (None, *flips)]

    def __len__(self) -> int:
        return len(self.views)

    @property
    def is_model(self) -> bool:
        return len(self.views) == 1

    def networks(self, forward: Forward, inputs: Tensor) -> Iterator[Networks]:
        # Size of the logits by size of the images: network 0 sets it.
        sizes: Dict[tuple, tuple] = {}
        for scale, flip in self.views:
            yield partial(self._look, forward, scale, flip, sizes)

    def _look(self, forward: Forward, scale: float, flip: Optional[str],
              sizes: Dict[tuple, tuple], images: Tensor) -> Tensor:
        shape = tuple(images.shape[2:])
        if scale != 1:
            images = resize(
                images, tuple(max(1, round(scale * n)) for n in shape),
                mode='bilinear', align_corners=False, warning=False)
        dims = (DIRECTIONS[flip], ) if flip else ()
        logits = forward(images.flip(dims)).flip(dims)
        size = sizes.setdefault(shape, tuple(logits.shape[2:]))
        if logits.shape[2:] != size:
            logits = resize(logits, size, mode='bilinear',
                            align_corners=False, warning=False)
        return logits[None]
