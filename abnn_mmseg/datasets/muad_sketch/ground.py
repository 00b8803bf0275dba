"""What lies flat or far away: sky, skyline, road, pavement and terrain."""
import math

import cv2
import numpy as np

from abnn_mmseg.datasets.muad_sketch import ids
from abnn_mmseg.datasets.muad_sketch.canvas import METRES_PER_CODE
from abnn_mmseg.datasets.muad_sketch.dice import mix, tone
from abnn_mmseg.datasets.muad_sketch.street import FAR
from abnn_mmseg.datasets.muad_sketch.textures import cut

DEPTHS = np.geomspace(1., FAR, 16).tolist()


def strip(canvas, left, right, colour, depths=DEPTHS):
    """Cover the ground between two lines along the street."""
    near = [(left, 0, z) for z in depths]
    far = [(right, 0, z) for z in depths[::-1]]
    canvas.solid([near + far], colour)


def patch(x0, x1, z0, z1):
    """Corners of a rectangle on the ground."""
    return [(x0, 0, z0), (x0, 0, z1), (x1, 0, z1), (x1, 0, z0)]


def draw_sky(canvas):
    """Draw the sky and its clouds."""
    camera, sky = canvas.camera, canvas.sky
    rows = int(np.clip(camera.horizon + 3, 1, camera.height))
    shape = (rows // 4 + 1, camera.width // 4)  # clouds have no fine detail
    height = np.linspace(0, 1, shape[0], dtype=np.float32)[:, None, None]
    zenith, rim = (np.float32(c) for c in (sky.zenith, sky.haze))
    colours = zenith + (rim - zenith) * height ** 1.5
    cover = cut('smooth', canvas.dice, shape)
    cover = np.clip(cover * 0.9 + sky.clouds - 0.5, 0, 1)[..., None]
    colours = colours + (np.float32(sky.cloud) - colours) * cover * 0.8
    canvas.use(ids.SKY, None, ids.AIR)
    canvas.cover(0, sky.haze)
    canvas.colour[:rows] = cv2.resize(colours.astype(np.uint8),
                                      (camera.width, rows))


def draw_skyline(canvas, street):
    """Roofs, trees or hills where the street ends."""
    dice, camera = canvas.dice, canvas.camera
    column = -10.
    while column < camera.width:
        width = camera.width * dice.between(0.03, 0.14)
        height = camera.height * dice.between(0.01, 0.14)
        kind = dice.weighted(dict(
            built=3 if street.style in ('urban', 'works') else 1, green=2,
            hill=0.5, gap=0.8))
        right, base = column + width, camera.horizon + 2
        if kind == 'built':
            canvas.use(ids.BUILDING, FAR, ids.PLASTER)
            roof = [(column, base - height), (right, base - height)]
            colour = dice.tint((120, 115, 112))
        else:
            label = ids.TERRAIN if kind == 'hill' else ids.VEGETATION
            canvas.use(label, FAR, ids.LEAF)
            roof = [(column + width * (i + 0.5) / 6, base - height * (
                dice.between(0.7, 1) * math.sin(math.pi * (i + 0.5) / 6)))
                for i in range(6)]
            colour = dice.tint((78, 96, 62))
        if kind != 'gap':
            canvas.fill([[(column, base), *roof, (right, base)]], colour)
        column = right


def draw_ground(canvas, street):
    """Terrain, then side street, pavements, road and all that is on it."""
    dice, camera = canvas.dice, canvas.camera
    grass = dice.tint(dice.pick([(96, 108, 62), (84, 100, 58), (112, 112, 64),
                                 (100, 106, 60), (72, 92, 52)]), 8)
    canvas.use(ids.TERRAIN, 0, ids.GRASS)
    top = int(np.clip(camera.horizon, 0, camera.height))
    canvas.cover(top, grass)
    asphalt = dice.tint(dice.pick([(92, 92, 95), (74, 74, 78),
                                   (84, 82, 84), (88, 83, 80)]), 8)
    draw_pavements(canvas, street, asphalt)
    draw_road(canvas, street, asphalt)
    rows = np.arange(top, camera.height) + 0.5 - camera.horizon
    z = camera.focal * camera.eye / np.maximum(rows, 0.5)
    codes = np.clip(z / METRES_PER_CODE, 0, 254).astype(np.uint8)
    canvas.buffer[top:, :, 1] = codes[:, None]


def draw_pavements(canvas, street, asphalt):
    """Draw the pavements on both sides of the road."""
    dice = canvas.dice
    for side in (-1, 1):
        slabs = dice.tint(dice.pick([(150, 145, 138), (134, 131, 128),
                                     (154, 134, 118), (128, 118, 110)]), 8)
        canvas.use(ids.SIDEWALK, 0, ids.PAVING)
        edge = side * street.half
        outer = edge + side * street.kerbs[side]
        if street.style == 'urban':  # paved up to the facades
            outer = side * street.fronts[side]
        strip(canvas, edge, outer, slabs)
        if street.crossing:
            canvas.use(ids.ROAD, 0, ids.ASPHALT)
            canvas.solid([patch(edge, side * 90, *street.crossing)], asphalt)
        canvas.use(ids.SIDEWALK, 0, ids.PAVING)
        kerb = tone(slabs, dice.between(0.75, 1.25))
        strip(canvas, edge, edge + side * 0.22, kerb)
        if street.crossing:  # the kerb is lowered at the side street
            canvas.use(ids.ROAD, 0, ids.ASPHALT)
            canvas.solid([patch(edge, edge + side * 0.3, *street.crossing)],
                         asphalt)


def draw_road(canvas, street, asphalt):
    """Draw the road with its stains and repairs."""
    dice, half = canvas.dice, street.half
    canvas.use(ids.ROAD, 0, ids.ASPHALT)
    strip(canvas, -half, half, asphalt)
    for _ in range(dice.count(0, 5)):  # repairs, stains, covers, puddles
        x, z = dice.between(-half, half), dice.between(4, 30)
        wide, deep = dice.between(0.3, 1.6), dice.between(0.5, 6)
        wide = min(wide, half - abs(x))
        canvas.detail([patch(x - wide, x + wide, z, z + deep)],
                      tone(asphalt, dice.between(0.72, 1.25)))
    draw_marks(canvas, street, asphalt)
    if dice.chance(0.3) or street.crossing:
        z = (street.crossing[0] - 3.5 if street.crossing
             else dice.between(6, 25))
        stripes = np.arange(-half + 0.4, half - 0.5, 1.1).tolist()
        canvas.detail([patch(x, x + 0.55, z, z + 2.8) for x in stripes],
                      mix(asphalt, (225, 225, 218), dice.between(0.3, 0.9)))


def draw_marks(canvas, street, asphalt):
    """Draw the lane marks."""
    dice, lanes = canvas.dice, street.lanes
    white = dice.pick([(226, 226, 220), (228, 228, 224), (214, 178, 70)])
    marks = mix(asphalt, white, dice.between(0.15, 0.95))
    dash, gap = dice.between(1.5, 4), dice.between(2, 6)
    starts = np.arange(dice.between(1, 4), 60, dash + gap).tolist()
    for left, right in zip(lanes[:-1], lanes[1:]):
        x = (left + right) / 2
        canvas.detail([patch(x - 0.07, x + 0.07, z, z + dash)
                       for z in starts], marks)
    if dice.chance(0.5):
        canvas.pen = (ids.ROAD, 0, ids.ASPHALT)
        for side in (-1, 1):
            x = side * (street.half - 0.35)
            strip(canvas, x, x + 0.12, marks)


def cast_shadows(canvas, items):
    """Darken the ground beside and under what stands on it."""
    sky, camera = canvas.sky, canvas.camera
    mask = np.zeros((camera.height // 2, camera.width // 2), np.uint8)
    reach = [-part / max(sky.sun[1], 0.25) for part in sky.sun[::2]]
    grounded = []
    for item in items:
        x, z, half, height = item.x, item.z, item.half, item.height
        grounded.append(patch(x - half, x + half, z - min(half, 0.6), z + .3))
        if sky.direct > 0.2:
            dx, dz = (height * r for r in reach)
            grounded.append([(x - half, 0, z), (x + half, 0, z),
                             (x + half + dx, 0, z + dz),
                             (x - half + dx, 0, z + dz)])
    for corners in grounded:
        pixels = np.array(camera.project(corners)) / 2
        cv2.fillPoly(mask, [pixels.astype(np.int32)], 255)
    mask = cv2.resize(cv2.blur(mask, (5, 3)), (camera.width, camera.height))
    top = int(np.clip(camera.horizon + 2, 0, camera.height - 1))
    keep = cv2.convertScaleAbs(mask[top:], alpha=-sky.shadow, beta=0)
    keep = cv2.merge([255 - keep] * 3)
    canvas.colour[top:] = cv2.multiply(canvas.colour[top:], keep,
                                       scale=1 / 255)
