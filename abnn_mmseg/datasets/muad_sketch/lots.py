"""What stands on the lots of both sides of a street."""
from functools import partial

import numpy as np

from abnn_mmseg.datasets.muad_sketch import roadside
from abnn_mmseg.datasets.muad_sketch.street import FAR, Item

LININGS = dict(
    urban=dict(building=9, wall=1, fence=1, trees=1, hedge=0.5, open=0.5),
    suburb=dict(building=4, wall=2, fence=2.5, trees=2, hedge=2, open=1),
    park=dict(building=1, wall=1.5, fence=2, trees=4, hedge=2, open=3),
    works=dict(building=5, wall=4, fence=4, trees=1, hedge=0.3, open=2))


def line_street(canvas, street):
    """Both sides, cut into lots of buildings, walls, trees, ..."""
    dice = canvas.dice
    for side in (-1, 1):
        z = dice.between(1, 5)
        tall = dice.between(0.5, 1.5)
        while z < FAR * 0.85:
            end = z + dice.between(6, 20) * (1 + z / 50)
            if street.crossing and z < street.crossing[1] and (
                    end > street.crossing[0]):
                end = street.crossing[0]
            if end - z > 3:
                kind = dice.weighted(LININGS[street.style])
                yield from lot(canvas, street, side, z, end, kind, tall)
            z = max(end, z + 1)
            if street.crossing and abs(z - street.crossing[0]) < 2:
                z = street.crossing[1]


def lot(canvas, street, side, near, far, kind, tall):
    """Yield what stands on one piece of land beside the road."""
    dice, x = canvas.dice, side * street.fronts[side]
    green = dice.tint(dice.pick(roadside.LEAVES), 10)
    if kind == 'building':
        house = roadside.Building(canvas, side, x, near, far, tall)
        yield Item(far + 0.1, partial(house.draw_end, canvas), x, near)
        bays = 1 + int((far - near) / (6 + near / 6))
        cuts = np.linspace(near, far, bays + 1).tolist()
        for start, end in zip(cuts[:-1], cuts[1:]):
            yield Item(end, partial(house.draw_bay, canvas, start, end),
                       x, start)
        return
    if kind == 'wall':
        draw = partial(roadside.draw_wall, canvas, side, x, near, far,
                       dice.between(0.8, 3.2))
        yield Item(far, draw, x, near)
    if kind == 'fence':
        draw = partial(roadside.draw_fence, canvas, x, near, far,
                       dice.between(0.9, 2.2), dice.any_colour(),
                       dice.between(0.15, 0.7))
        yield Item(far, draw, x, near)
    if kind == 'hedge':
        draw = partial(roadside.draw_hedge, canvas, side, x, near, far,
                       dice.between(0.7, 2.4), green)
        yield Item(far, draw, x, near)
    yield from garden(canvas, side, x, near, far, kind, green)


def garden(canvas, side, x, near, far, kind, green):
    """Trees, bushes or a set-back house behind the lot's front."""
    dice = canvas.dice
    count = dict(trees=5, open=0).get(kind, 2)
    for _ in range(dice.count(0, count)):
        z = dice.between(near, far)
        behind = far + 0.2 if kind != 'trees' else z
        place = x + side * dice.between(0.8, 7)
        draw = partial(roadside.draw_tree, canvas, place, z,
                       dice.between(3.5, 10),
                       dice.pick(['round', 'round', 'poplar', 'cone']),
                       dice.tint(green, 8))
        yield Item(behind, draw, place, z, 0, 4)
    if kind != 'trees' and dice.chance(0.35):
        house = roadside.Building(canvas, side, x + side * 6, near, far, 0.7)
        yield Item(far + 0.5, partial(house.draw_end, canvas), x, near)
        yield Item(far + 0.4, partial(house.draw_bay, canvas, near, far),
                   x, near)
