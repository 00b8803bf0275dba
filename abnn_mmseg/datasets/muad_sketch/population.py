"""Who and what is in a street: furniture, traffic, people, strangers."""
import math

import numpy as np

from abnn_mmseg.datasets.muad_sketch import (
    furniture,
    people,
    roadside,
    strangers,
    vehicles,
)
from abnn_mmseg.datasets.muad_sketch.street import standing


def furnish(canvas, street):
    """Poles, lights, signs and street trees along the kerbs."""
    dice = canvas.dice
    draws = {
        furniture.draw_lamp: 4, furniture.draw_utility_pole: 1.5,
        furniture.draw_sign: 4, furniture.draw_traffic_light: 2.5,
        furniture.draw_bollards: 1, furniture.draw_gantry_sign: 0.4}
    for side in (-1, 1):
        for z in (np.cumsum(dice.rng.uniform(2, 13, 8)) + 3).tolist():
            if street.crossing and (
                    street.crossing[0] - 1 < z < street.crossing[1] + 1):
                continue
            x = side * (street.half + dice.between(0.3, 0.9))
            if dice.chance(0.3) and street.kerbs[side] > 2.2:
                yield street_tree(canvas, x + side * 0.5, z)
            elif dice.chance(0.75):
                draw = dice.weighted(draws)
                yield standing(canvas, draw, x, z, 0.12, 4)
        if street.crossing and dice.chance(0.7):
            x = side * (street.half + 0.5)
            yield standing(canvas, furniture.draw_traffic_light, x,
                           street.crossing[0] - 0.6, 0.1, 3)


def street_tree(canvas, x, z):
    """A tree or a bush on the pavement."""
    dice = canvas.dice
    green = dice.tint(dice.pick(roadside.LEAVES), 10)
    if dice.chance(0.25):
        return standing(canvas, roadside.draw_bush, x, z, 0.4, 0.6,
                        dice.between(0.8, 1.6), green)
    kind = dice.pick(['round', 'round', 'poplar', 'cone'])
    return standing(canvas, roadside.draw_tree, x, z, 0.9, 5,
                    dice.between(3, 7.5), kind, green)


def traffic(canvas, street):
    """Vehicles in lanes, at the kerb and across the side street."""
    dice = canvas.dice
    draws = {vehicles.draw_car: 6, vehicles.draw_truck: 1.8,
             vehicles.draw_bus: 1.5}
    busy = dice.between(0.2, 0.9)
    for lane in street.lanes:
        yaw = 0 if lane > 0 else math.pi
        z = dice.between(7, 20)
        while z < 70:
            draw = dice.weighted(draws)
            long = draw is not vehicles.draw_car
            z += 5 if long else 0
            if dice.chance(busy):
                turn = yaw + dice.rng.normal(0, 0.06)
                yield standing(canvas, draw, lane + dice.between(-.3, .3), z,
                               1.0, 3 if long else 1.3, turn)
            z += dice.between(7, 25) + (7 if long else 0)
    yield from parked(canvas, street)
    if street.crossing and dice.chance(0.6):
        z = sum(street.crossing) / 2
        x = canvas.camera.across(
            dice.between(0.1, 0.9) * canvas.camera.width, z)
        yield standing(canvas, dice.weighted(draws), x, z, 2, 1.4,
                       dice.sign() * math.pi / 2 + dice.rng.normal(0, 0.1))


def parked(canvas, street):
    """Yield the cars along the kerbs."""
    dice = canvas.dice
    for side in (-1, 1):
        if dice.chance(0.4):
            x = side * (street.half - 0.2)
            places = np.cumsum(dice.rng.uniform(5.3, 14, 5)) + 4
            for z in places.tolist():
                draw = (vehicles.draw_truck if dice.chance(0.1)
                        else vehicles.draw_car)
                yield standing(canvas, draw, x, z, 1.0, 1.3,
                               math.pi * dice.count(0, 1))


def crowd(canvas, street):
    """Yield the persons on the pavements and on the road."""
    dice = canvas.dice
    for _ in range(dice.pick([0, 1, 2, 3, 4, 6, 9])):
        z = dice.between(2, 6.3) ** 2
        side = dice.sign()
        x = side * (street.half + dice.between(
            0.3, max(street.kerbs[side] - 0.2, 0.5)))
        if dice.chance(0.22):
            x = dice.between(-street.half, street.half)
        draw = people.draw_pair if dice.chance(0.25) else people.draw_person
        yield standing(canvas, draw, x, z, 0.3, 1.7)


def strange(canvas, street):
    """One to three objects of classes no training image holds."""
    dice, camera = canvas.dice, canvas.camera
    # how: often, nearest and farthest metres, half width, height
    draws = {
        strangers.draw_animal: (5, 5, 32, 0.7, 1.2),
        strangers.draw_bags: (2.5, 4.5, 18, 0.6, 0.6),
        strangers.draw_bin: (2, 4.5, 18, 0.35, 1),
        strangers.draw_stand: (1.5, 7, 26, 1, 2.2),
        strangers.draw_bicycle: (2, 4.5, 20, 0.5, 1),
        strangers.draw_motorcycle: (2, 5, 24, 0.7, 1),
        strangers.draw_rider: (3, 5, 30, 0.5, 1.7)}
    for _ in range(dice.count(1, 3)):
        draw = dice.weighted({d: how[0] for d, how in draws.items()})
        _, near, far, half, height = draws[draw]
        z = near * (far / near) ** dice.rng.random()
        x = camera.across(dice.between(0.06, 0.94) * camera.width, z)
        limit = {s: street.half + street.kerbs[s] * 0.9 for s in (-1, 1)}
        x = min(max(x, -limit[-1]), limit[1])
        yield standing(canvas, draw, x, z, half, height)
    if dice.chance(0.06):
        yield standing(canvas, strangers.draw_tram, dice.pick(street.lanes),
                       dice.between(18, 40), 1.2, 3, math.pi)
