"""One street scene, drawn from far to near."""
import math

import numpy as np

from abnn_mmseg.datasets.muad_sketch import ids
from abnn_mmseg.datasets.muad_sketch.canvas import Camera, Canvas
from abnn_mmseg.datasets.muad_sketch.dice import Dice
from abnn_mmseg.datasets.muad_sketch.ground import (
    cast_shadows,
    draw_ground,
    draw_sky,
    draw_skyline,
)
from abnn_mmseg.datasets.muad_sketch.lots import line_street
from abnn_mmseg.datasets.muad_sketch.population import (
    crowd,
    furnish,
    strange,
    traffic,
)
from abnn_mmseg.datasets.muad_sketch.render import render
from abnn_mmseg.datasets.muad_sketch.street import Street
from abnn_mmseg.datasets.muad_sketch.weather import Sky


def draw_scene(rng, size=(256, 128), ood=False):
    """Draw a street.

    Args:
        rng (np.random.Generator): The scene depends on it and on nothing
            else.
        size (tuple[int]): Width and height of the result.
        ood (bool): Whether the street holds objects of unseen classes.

    Returns:
        tuple[np.ndarray]: An RGB image [H, W, 3] and its raw MUAD ids
        [H, W], both uint8.
    """
    dice = Dice(rng)
    while True:
        canvas = compose(dice, size, ood)
        label = canvas.labels()
        # A hidden or a two-pixel stranger is none: draw another street.
        seen = np.isin(label, ids.OOD_IDS).sum()
        if not ood or seen >= label.size // 800:
            return render(canvas), label


def compose(dice, size, ood):
    """Everything but texture, light and weather."""
    sky, street = Sky.roll(dice), Street.roll(dice)
    canvas = Canvas(roll_camera(dice, size, street), dice, sky)
    draw_sky(canvas)
    draw_skyline(canvas, street)
    draw_ground(canvas, street)
    items = [*line_street(canvas, street), *furnish(canvas, street),
             *traffic(canvas, street), *crowd(canvas, street)]
    if ood:
        items += strange(canvas, street)
    items = [item for item in items if in_view(canvas.camera, item)]
    cast_shadows(canvas, [item for item in items if item.half])
    for item in sorted(items, key=lambda item: -item.z):
        item.draw()
    if dice.chance(0.3):
        draw_bonnet(canvas)
    return canvas


def roll_camera(dice, size, street):
    """Draw a random camera in one of the lanes."""
    width, height = size[0] * 2, size[1] * 2
    lane = dice.pick(street.lanes[len(street.lanes) // 2:])
    return Camera(
        width, height, focal=width * dice.between(0.7, 1.15),
        centre=width * dice.between(0.36, 0.64),
        horizon=height * dice.between(0.34, 0.52),
        eye=dice.between(1.25, 2.1), x=lane + dice.between(-0.5, 0.5),
        bend=dice.rng.normal(0, 0.0011))


def in_view(camera, item):
    """Whether any of a thing can be inside the picture."""
    ends = camera.project([(item.x, 0, item.z), (item.x, 0, item.near)])
    columns = [column for column, _ in ends]
    reach = (item.half + item.height) * camera.scale(item.z)
    return (min(columns) < camera.width + reach
            and max(columns) > -reach)


def draw_bonnet(canvas):
    """The car that carries the camera: void."""
    dice, camera = canvas.dice, canvas.camera
    middle = camera.width * dice.between(0.4, 0.6)
    wide, high = camera.width * dice.between(0.3, 0.7), (
        camera.height * dice.between(0.04, 0.1))
    angles = np.linspace(0, math.pi, 15)
    canvas.use(ids.VOID, 0, ids.PAINT)
    rim = np.stack([middle + wide * np.cos(angles),
                    camera.height - high * np.sin(angles) ** 0.5], 1)
    paint = dice.any_colour()
    canvas.fill([rim], paint)
