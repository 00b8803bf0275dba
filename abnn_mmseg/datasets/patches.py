"""Outlines and fills of unknown things, which have no class."""
from typing import Callable

import cv2
import numpy as np

FILLS = ('noise', 'pattern', 'colour', 'crop')
Size = tuple[int, int]


def draw_outline(size: Size, edge: float,
                 generator: np.random.Generator) -> np.ndarray:
    """How much of each pixel a thing covers, float32 ``[H, W]`` in 0..1.

    Args:
        size (tuple[int, int]): Height and width.
        edge (float): Largest width of the soft edge, relative to the size.
        generator (np.random.Generator): Source of random numbers.
    """
    height, width = size
    mask = np.zeros(size, np.uint8)
    centre = width // 2, height // 2
    kind = generator.integers(4)
    if kind == 0:
        cv2.ellipse(mask, centre, (width * 2 // 5, height * 2 // 5), 0, 0,
                    360, 1, -1)
    elif kind == 1:
        margin = max(1, height // 12), max(1, width // 12)
        mask[margin[0]:-margin[0], margin[1]:-margin[1]] = 1
    elif kind == 2:
        angles = np.sort(generator.uniform(0, 2 * np.pi,
                                           generator.integers(3, 9)))
        radii = generator.uniform(0.5, 0.95, len(angles)) / 2
        corners = np.stack([np.cos(angles) * radii * width + centre[0],
                            np.sin(angles) * radii * height + centre[1]], 1)
        cv2.fillPoly(mask, [corners.round().astype(np.int32)], 1)
    else:
        across = np.hypot(*np.meshgrid(np.linspace(-1, 1, width),
                                       np.linspace(-1, 1, height)))
        bumps = smooth_noise(size, 1, 5, generator)[..., 0]
        mask = (across + 0.35 * bumps < 0.7).astype(np.uint8)
    if not mask.any():
        mask[height // 4:, width // 4:] = 1
    soft: np.ndarray = mask.astype(np.float32)
    sigma = generator.uniform(0, edge) * min(size) / 2
    if sigma > 0.3:
        soft = cv2.GaussianBlur(soft, (0, 0), sigma,
                                borderType=cv2.BORDER_CONSTANT)
    return soft


def draw_fill(kind: str, size: Size, channels: int,
              other: Callable[[], np.ndarray],
              generator: np.random.Generator) -> np.ndarray:
    """The fill of a thing, float32 ``[H, W, channels]`` in 0..255.

    Args:
        kind (str): One of ``FILLS``.
        size (tuple[int, int]): Height and width.
        channels (int): Channels of the image.
        other (Callable): Returns the image for a crop.
        generator (np.random.Generator): Source of random numbers.
    """
    if kind == 'crop':
        return crop_of(other(), size, generator)
    colour = generator.uniform(0, 255, (2, channels)).astype(np.float32)
    if kind == 'noise':
        grain = int(generator.integers(2, 1 + max(2, min(size))))
        noise = smooth_noise(size, channels, grain, generator)
        fill = colour[0] + generator.uniform(20, 90) * noise
    elif kind == 'pattern':
        share = pattern(size, generator)[..., None]
        fill = share * colour[0] + (1 - share) * colour[1]
    else:
        first, last = map(float, generator.uniform(0.6, 1.4, 2))
        light = np.linspace(first, last, size[0])
        fill = colour[0] * light[:, None, None] + 12 * smooth_noise(
            size, channels, 4, generator)
    return np.clip(fill, 0, 255).astype(np.float32)


def smooth_noise(size: Size, channels: int, cells: int,
                 generator: np.random.Generator) -> np.ndarray:
    """Normal noise on a grid of ``cells`` cells, enlarged to the size."""
    rows, columns = (min(cells, n) for n in size)
    noise = generator.standard_normal((rows, columns, channels), np.float32)
    resized = cv2.resize(noise, size[::-1], interpolation=cv2.INTER_CUBIC)
    return resized.reshape(*size, channels)


def pattern(size: Size, generator: np.random.Generator) -> np.ndarray:
    """Stripes, checks or waves between 0 and 1, turned by any angle."""
    angle = generator.uniform(0, np.pi)
    period = generator.uniform(4, max(6, min(size) / 2))
    y, x = np.mgrid[:size[0], :size[1]].astype(np.float32)
    along = np.cos(angle) * x + np.sin(angle) * y
    across = np.cos(angle) * y - np.sin(angle) * x
    wave = np.sin(2 * np.pi / period * along)
    if generator.random() < 0.5:
        wave = wave * np.sin(2 * np.pi / period * across)
    return (wave + 1) / 2 if generator.random() < 0.3 else (
        wave > 0).astype(np.float32)


def crop_of(image: np.ndarray, size: Size,
            generator: np.random.Generator) -> np.ndarray:
    """A crop of an image: resized, turned upside down, channels swapped."""
    zoom = np.exp(generator.uniform(-0.7, 0.7))
    rows, columns = (max(2, min(n, int(s * zoom)))
                     for n, s in zip(image.shape[:2], size))
    top = generator.integers(image.shape[0] - rows + 1)
    left = generator.integers(image.shape[1] - columns + 1)
    crop: np.ndarray = image[
        top:top + rows, left:left + columns].astype(np.float32)
    channels = crop.shape[2]
    # All channels move, by one or two places.
    shift = generator.integers(1, channels) if channels > 1 else 0
    crop = np.roll(crop, shift, 2)
    if generator.random() < 0.5:
        crop = crop[::-1]
    if generator.random() < 0.3:
        crop = 255 - crop
    crop = cv2.resize(np.ascontiguousarray(crop), size[::-1])
    return crop.reshape(*size, channels)
