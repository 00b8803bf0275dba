"""Paste unknown things, which have no class, into images."""
import os
import os.path as osp
from collections.abc import Sequence
from functools import lru_cache
from typing import Optional

import numpy as np
from mmcv.transforms import BaseTransform
from mmseg.registry import TRANSFORMS

from abnn_mmseg.datasets.pairs import EXTENSIONS
from abnn_mmseg.datasets.patches import FILLS, draw_fill, draw_outline
from abnn_mmseg.datasets.protocol import IGNORE, OOD, VOID
from abnn_mmseg.datasets.transforms import read_image
from abnn_mmseg.utils.choices import one_of

# Pixels that are covered less than this keep their label.
FAINT = 0.05


@TRANSFORMS.register_module()
class PasteUnknown(BaseTransform):
    """Pastes a few unknown things into an image, and labels them OOD.

    A thing is an ellipse, a rectangle, a polygon or a blob with soft edges,
    filled with noise, a pattern, a colour or a crop of another image whose
    channels are swapped. The label maps of ``LoadAnomalyAnnotations`` follow:

    - ``gt_seg_map`` is 255 wherever a thing is visible;
    - ``gt_anomaly_map`` is 1 where a thing covers more than half of a pixel
      and 255 on the rest of its edge. If there is no such map, one is made: 0
      where ``gt_seg_map`` has a class, 255 elsewhere.

    Put this transform after loading, resizing and cropping.
    ``PackAnomalyInputs`` packs the anomaly map.

    Args:
        count (Sequence[int]): Smallest and largest number of things in an
            image. Defaults to (1, 3).
        size (Sequence[float]): Smallest and largest extent of a thing,
            relative to the image's shorter side. Defaults to (0.1, 0.5).
        fills (Sequence[str]): Fills of things, some of 'noise', 'pattern',
            'colour' and 'crop'. Defaults to all.
        edge (float): Largest width of the soft edge, relative to the thing's
            extent. Defaults to 0.1.
        images (str, optional): Folder of the images for crops. Defaults to
            the folder of the image itself.
        prob (float): Share of images with pasted things. Defaults to 1.
        keep_ood (bool): Whether pixels that were OOD before stay OOD.
            Defaults to False: they become void, so that only pasted things
            are OOD.
        seed (int, optional): With a seed, the things depend only on it and on
            the image's index in its dataset, for validation. By default they
            are different whenever the image is loaded.
    """

    def __init__(self,
                 count: Sequence[int] = (1, 3),
                 size: Sequence[float] = (0.1, 0.5),
                 fills: Sequence[str] = FILLS,
                 edge: float = 0.1,
                 images: Optional[str] = None,
                 prob: float = 1.,
                 keep_ood: bool = False,
                 seed: Optional[int] = None) -> None:
        low, high = count
        if not 0 <= low <= high:
            raise ValueError(f'PasteUnknown: count={tuple(count)!r} must be '
                             'the fewest and the most things, such as (1, 3).')
        small, large = size
        if not 0 < small <= large <= 1:
            raise ValueError(f'PasteUnknown: size={tuple(size)!r} must be '
                             'two parts of the image\'s shorter side, such '
                             'as (0.1, 0.5).')
        if not fills:
            raise ValueError('PasteUnknown: fills is empty; name some of '
                             f'{", ".join(FILLS)}.')
        if not 0 <= prob <= 1:
            raise ValueError(f'PasteUnknown: prob={prob} is not a '
                             'probability; write a number from 0 to 1.')
        self.count = low, high
        self.size = small, large
        self.fills = [one_of('PasteUnknown: fill', f, FILLS) for f in fills]
        self.edge = edge
        self.images = images
        self.prob = prob
        self.keep_ood = keep_ood
        self.seed = seed
        if images is not None and not image_files(images):
            raise ValueError(f'PasteUnknown: no image in images={images!r}; '
                             'name a folder of images, or leave it out.')

    def transform(self, results: dict) -> dict:
        """Paste things into ``img`` and the label maps."""
        generator = self._generator(results)
        image = results['img']
        cover = np.zeros(image.shape[:2], np.float32)
        if generator.random() < self.prob:
            low, high = self.count
            image = image.astype(np.float32)
            for _ in range(generator.integers(low, high + 1)):
                self._paste(image, cover, results, generator)
            results['img'] = _as_type(image, results['img'].dtype)
        self._label(results, cover)
        return results

    def _generator(self, results: dict) -> np.random.Generator:
        if self.seed is None:
            return np.random.default_rng(np.random.randint(2**31))
        return np.random.default_rng(
            (self.seed, results.get('sample_idx', 0)))

    def _paste(self, image: np.ndarray, cover: np.ndarray, results: dict,
               generator: np.random.Generator) -> None:
        """Blend one thing into the image and into its cover."""
        height, width = image.shape[:2]
        extent = min(height, width) * np.exp(
            generator.uniform(*np.log(self.size)))
        stretch = np.exp(generator.uniform(-0.5, 0.5))
        rows = int(np.clip(extent * stretch, 2, height))
        columns = int(np.clip(extent / stretch, 2, width))
        top = generator.integers(height - rows + 1)
        left = generator.integers(width - columns + 1)
        fill = draw_fill(
            self.fills[generator.integers(len(self.fills))], (rows, columns),
            image.shape[2], lambda: self._other(results, generator),
            generator)
        soft = draw_outline((rows, columns), self.edge, generator)
        place = np.s_[top:top + rows, left:left + columns]
        image[place] += soft[..., None] * (fill - image[place])
        cover[place] = np.maximum(cover[place], soft)

    def _other(self, results: dict,
               generator: np.random.Generator) -> np.ndarray:
        """A random other image, or this one if there is none."""
        path = results.get('img_path')
        folder = self.images or (osp.dirname(path) if path else None)
        files = image_files(folder) if folder else ()
        others = [file for file in files if file != path]
        if not others:
            return results['img']
        other = read_image(others[generator.integers(len(others))])
        matches = other.shape[2:] == results['img'].shape[2:]
        return other if matches else results['img']

    def _label(self, results: dict, cover: np.ndarray) -> None:
        seg = results.get('gt_seg_map')
        anomaly = results.get('gt_anomaly_map')
        if anomaly is None:
            known = np.zeros(cover.shape, np.uint8)
            anomaly = known if seg is None else np.where(
                seg == IGNORE, np.uint8(VOID), known)
            results.setdefault('seg_fields', []).append('gt_anomaly_map')
        elif not self.keep_ood:
            anomaly = np.where(anomaly == OOD, np.uint8(VOID), anomaly)
        anomaly = np.where(cover > FAINT, np.uint8(VOID), anomaly)
        results['gt_anomaly_map'] = np.where(
            cover > 0.5, np.uint8(OOD), anomaly)
        if seg is not None:
            results['gt_seg_map'] = np.where(
                cover > FAINT, seg.dtype.type(IGNORE), seg)

    def __repr__(self) -> str:
        inner = ', '.join(f'{k}={v!r}' for k, v in vars(self).items())
        return f'{type(self).__name__}({inner})'


@lru_cache(maxsize=64)
def image_files(folder: str) -> tuple[str, ...]:
    """The images of a folder, sorted; empty if the folder is missing."""
    if not osp.isdir(folder):
        return ()
    return tuple(
        osp.join(folder, name) for name in sorted(os.listdir(folder))
        if name.lower().endswith(EXTENSIONS))


def _as_type(image: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Rounded and clipped for integer images."""
    if np.issubdtype(dtype, np.integer):
        image = np.clip(image, 0, 255).round()
    return image.astype(dtype)
