"""Poles and what hangs on them: lamps, traffic lights and signs."""
import math

from abnn_mmseg.datasets.muad_sketch import ids
from abnn_mmseg.datasets.muad_sketch.dice import tone
from abnn_mmseg.datasets.muad_sketch.sprite import Sprite, box

METAL = [(92, 94, 96), (60, 62, 64), (128, 128, 126), (84, 74, 62),
         (58, 72, 62)]


def draw_pole(canvas, pole, z, height, colour, width=0.13):
    """Draw the pole that carries a sign or a lamp."""
    canvas.use(ids.POLE, z, ids.PAINT)
    pole.limb((0, 0), (0, height), (width * 1.3, width), colour)


def draw_lamp(canvas, x, z):
    """A street lamp; its arm reaches over the road."""
    dice = canvas.dice
    height, reach = dice.between(4.5, 8), dice.between(0.3, 1.8)
    toward = -1 if x > 0 else 1
    pole = Sprite(canvas, x, z, turn=toward)
    colour = dice.tint(dice.pick(METAL))
    draw_pole(canvas, pole, z, height, colour)
    pole.limb((0, height), (reach, height + 0.25), (0.1, 0.08), colour)
    head = (reach, height + 0.2)
    if canvas.sky.dark:
        canvas.use(ids.POLE, z, ids.SHINING)
        warm = dice.pick([(255, 214, 150), (244, 240, 226), (255, 190, 110)])
        canvas.glow((x + toward * reach, head[1], z), 1.0, warm, lamp=True)
        colour = warm
    pole.disc(head, (0.3, 0.12), colour)


def draw_utility_pole(canvas, x, z):
    """Draw a wooden pole with a crossbar."""
    dice = canvas.dice
    pole = Sprite(canvas, x, z)
    height = dice.between(5.5, 8.5)
    colour = dice.tint((96, 80, 64))
    draw_pole(canvas, pole, z, height, colour, 0.2)
    pole.limb((-0.9, height - 0.5), (0.9, height - 0.5), (0.1, 0.1), colour)


def draw_bollards(canvas, x, z):
    """Draw a row of posts along the kerb."""
    dice = canvas.dice
    colour = dice.tint(dice.pick(METAL))
    for i in range(dice.count(1, 4)):
        post = Sprite(canvas, x, z - i * 1.3)
        canvas.use(ids.POLE, z - i * 1.3, ids.PAINT)
        post.limb((0, 0), (0, 0.95), (0.2, 0.17), colour)
        post.detail(box(-0.09, 0.09, 0.7, 0.82), tone(colour, 1.7))


def draw_traffic_light(canvas, x, z):
    """Three lamps on a pole, beside the road or above it."""
    dice = canvas.dice
    pole = Sprite(canvas, x, z, turn=-1 if x > 0 else 1)
    metal = dice.tint(dice.pick(METAL))
    above = dice.chance(0.35)
    height = dice.between(5, 6) if above else dice.between(2.8, 3.6)
    draw_pole(canvas, pole, z, height, metal)
    spots = [(0, height - 0.6)]
    if above:
        reach = dice.between(1.8, 4)
        pole.limb((0, height), (reach, height), (0.11, 0.09), metal)
        spots = [(reach, height - 0.5), (0, 2.9)]
    case = dice.tint(dice.pick([(34, 36, 36), (40, 52, 44), (150, 124, 44)]))
    on = dice.count(0, 2)
    for spot in spots:
        draw_signal_head(canvas, pole, z, spot, case, on)


def draw_signal_head(canvas, pole, z, spot, case, on):
    """Draw a traffic light with one of its lamps on."""
    x, y = spot
    canvas.use(ids.LIGHT, z, ids.PAINT)
    pole.poly(box(x - 0.22, x + 0.22, y - 0.55, y + 0.55), case)
    hues = ((226, 60, 48), (236, 170, 50), (70, 214, 130))
    for i, hue in enumerate(hues):
        centre = (x, y + 0.34 - 0.34 * i)
        if i == on:
            canvas.use(ids.LIGHT, z, ids.SHINING)
            pole.disc(centre, (0.14, 0.14), hue)
            canvas.glows.append((pole.pixels([centre])[0],
                                 0.4 * pole.scale, hue))
        else:
            pole.disc(centre, (0.12, 0.12), tone(hue, 0.3), paint=True)


def draw_sign(canvas, x, z):
    """A traffic sign: the plate is one class, its pole another."""
    dice = canvas.dice
    pole = Sprite(canvas, x, z)
    height = dice.between(2.1, 3.2)
    draw_pole(canvas, pole, z, height, dice.tint(dice.pick(METAL)), 0.09)
    for i in range(dice.pick([1, 1, 1, 2])):
        canvas.use(ids.SIGN, z, ids.PAINT)
        draw_plate(dice, pole, height - 0.1 - 0.8 * i)


def draw_plate(dice, pole, y):
    """Draw the plate of a traffic sign."""
    shape = dice.pick(['disc', 'triangle', 'square', 'board', 'octagon'])
    red, blue, white = (188, 44, 40), (44, 82, 158), (222, 222, 216)
    rim, face = dice.pick([(red, white), (blue, white), (white, blue),
                           (red, red), (dice.any_colour(),) * 2,
                           (white, (206, 172, 60))])
    rim, face = dice.tint(rim, 14), dice.tint(face, 14)
    corners = dict(disc=14, triangle=3, square=4, octagon=8)
    if shape == 'board':
        wide = dice.between(0.5, 1.1)
        outline = box(-wide, wide, -0.3, 0.35)
    else:
        turn = math.pi / 8 if shape == 'octagon' else 0
        n = corners[shape]
        angles = [(i / n * 2 + 0.5) * math.pi + turn for i in range(n)]
        outline = [(0.42 * math.cos(a), 0.42 * math.sin(a)) for a in angles]
    for share, colour, draw in (((1, 1), rim, pole.poly),
                                ((0.75, 0.75), face, pole.detail),
                                ((0.5, 0.2), tone(rim, 0.6), pole.detail)):
        draw([(a * share[0], y + b * share[1]) for a, b in outline], colour)


def draw_gantry_sign(canvas, x, z):
    """A direction board over the road, on two legs."""
    dice = canvas.dice
    span = dice.between(3.5, 7) * (-1 if x > 0 else 1)
    frame = Sprite(canvas, x, z)
    metal = dice.tint(dice.pick(METAL))
    canvas.use(ids.POLE, z, ids.PAINT)
    frame.limb((0, 0), (0, 6), (0.25, 0.2), metal)
    frame.limb((0, 5.8), (span, 5.8), (0.18, 0.18), metal)
    canvas.use(ids.SIGN, z, ids.PAINT)
    plate = dice.tint(dice.pick([(40, 78, 150), (36, 110, 74),
                                 (210, 210, 204)]))
    left, right = sorted((span * 0.35, span))
    frame.poly(box(left, right, 4.9, 6.4), plate)
    for y in (5.2, 5.6, 6.0):
        end = right - (right - left) * dice.between(0.1, 0.5)
        frame.detail(box(left + 0.3, end, y, y + 0.16), (214, 214, 210))
