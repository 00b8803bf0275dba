"""Seamless noise tiles: grain of asphalt, brick, leaves and clouds."""
from functools import cache, lru_cache

import cv2
import numpy as np

SIDE = 512
TILE_SEED = 1789  # the tiles are part of the generator, not of a scene


def octaves(rng, first, last, fade):
    """Noise of unit deviation, summed over cell sizes first to last."""
    total = np.zeros((SIDE, SIDE), np.float32)
    cell, weight = first, 1.
    while cell >= last:
        small = rng.standard_normal((SIDE // cell,) * 2).astype(np.float32)
        # Pad by wrapping so that the tile repeats without a seam.
        small = np.pad(small, 2, mode='wrap')
        big = cv2.resize(small, None, fx=cell, fy=cell,
                         interpolation=cv2.INTER_CUBIC)
        total += weight * big[2 * cell:2 * cell + SIDE,
                              2 * cell:2 * cell + SIDE]
        cell, weight = cell // 2, weight * fade
    return (total - total.mean()) / total.std()


def grid(rng, width, height, joint, shifted):
    """Courses of bricks or slabs with darker joints."""
    y, x = np.mgrid[:SIDE, :SIDE]
    row = y // height
    x = x + (row % 2) * (width // 2) * shifted
    bricks = rng.normal(0, 0.6, (SIDE // height, SIDE // width + 1))
    tile = bricks[row, (x // width) % (SIDE // width)]
    tile[(y % height < joint) | (x % width < joint)] = -1.6
    return tile.astype(np.float32)


@cache
def noise(name):
    """A tile [512, 512] by name: smooth, grain, leaf, brick, ..."""
    rng = np.random.default_rng(TILE_SEED)
    if name == 'smooth':
        return octaves(rng, 64, 4, 0.55)
    if name == 'grain':
        return octaves(rng, 8, 1, 0.9)
    if name == 'leaf':
        return octaves(rng, 16, 1, 0.75)
    if name == 'brick':
        return grid(rng, 8, 4, 1, True)
    if name == 'sensor':
        return rng.standard_normal((SIDE, SIDE, 3)).astype(np.float32)
    if name == 'ground':  # two channels: asphalt or grass, and paving slabs
        rough = octaves(rng, 64, 1, 0.85)
        return np.dstack([rough, grid(rng, 32, 32, 2, False) + rough * 0.4])
    raise KeyError(name)


@lru_cache(maxsize=16)
def spread(name, shape):
    """A tile repeated so that any piece of a shape can be sliced off it."""
    more = [(0, side) for side in shape]
    tile = noise(name)
    return np.pad(tile, more + [(0, 0)] * (tile.ndim - 2), mode='wrap')


def cut(name, dice, shape):
    """A piece of a tile from a random place."""
    top, left = dice.count(0, SIDE - 1), dice.count(0, SIDE - 1)
    # Sizes are rounded up so that few repeated tiles are kept.
    whole = tuple(-(-side // SIDE) * SIDE for side in shape)
    return spread(name, whole)[top:top + shape[0], left:left + shape[1]]
