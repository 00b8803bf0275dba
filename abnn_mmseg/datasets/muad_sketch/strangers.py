"""What no training image holds: animals, two-wheelers, rubbish, stands."""
import math

import numpy as np

from abnn_mmseg.datasets.muad_sketch import ids
from abnn_mmseg.datasets.muad_sketch.dice import tone
from abnn_mmseg.datasets.muad_sketch.people import SKIN, draw_head
from abnn_mmseg.datasets.muad_sketch.sprite import Body, Sprite, box, wheel
from abnn_mmseg.datasets.muad_sketch.vehicles import TYRE, draw_coach, slab

FUR = [(120, 88, 58), (94, 66, 44), (52, 40, 34), (160, 124, 84),
       (196, 184, 168), (38, 34, 34), (128, 118, 108)]
# leg length, body length, body depth, neck (reach, rise), head size
SPECIES = dict(deer=(0.75, 1.25, 0.42, (0.3, 0.55), 0.16),
               cow=(0.65, 1.7, 0.72, (0.45, 0.2), 0.24),
               bear=(0.45, 1.5, 0.78, (0.3, 0.08), 0.27),
               dog=(0.36, 0.75, 0.28, (0.15, 0.2), 0.13),
               horse=(0.95, 1.6, 0.6, (0.5, 0.6), 0.2))


def draw_animal(canvas, x, z):
    """Draw an animal."""
    dice = canvas.dice
    kind = dice.weighted(dict(deer=4, cow=3, bear=3, dog=2, horse=1))
    legs, length, depth, (reach, rise), head = SPECIES[kind]
    turn = dice.sign() * dice.pick([1, 0.95, 0.8, 0.45])
    beast = Sprite(canvas, x, z, dice.between(0.85, 1.2), turn)
    canvas.use(ids.ANIMAL, z, ids.CLOTH)
    fur = dice.tint(dice.pick(FUR), 14)
    half, back = length / 2, legs + depth / 2
    draw_paws(beast, half, legs, depth, fur, dice)
    beast.blob((0, back), (half, depth / 2), fur, 0.05)
    beast.disc((half * 0.62, back + 0.03), (depth * .5, depth * .52), fur)
    beast.disc((-half * 0.6, back), (depth * 0.52, depth * 0.52), fur)
    beast.limb((-half, back + 0.1), (-half - 0.14, back - 0.25),
               (0.09, 0.05), tone(fur, 0.8))
    if dice.chance(0.3):  # grazing
        rise = -legs * 0.8
    nape, crown = (half * 0.8, back + depth * 0.15), (
        half * 0.8 + reach, back + depth * 0.15 + rise)
    beast.limb(nape, crown, (depth * 0.6, head * 1.5), fur)
    beast.limb(crown, (crown[0] + head * 1.6, crown[1] - head * 0.7),
               (head * 1.5, head * 0.8), tone(fur, 0.92))
    beast.limb((crown[0] - 0.02, crown[1] + head * 0.4),
               (crown[0] - 0.1, crown[1] + head * 1.3), (0.09, 0.04), fur)
    draw_coat(beast, kind, half, back, depth, crown, head, fur, dice)


def draw_paws(beast, half, legs, depth, fur, dice):
    """Draw the legs of an animal."""
    thick = 0.09 + depth * 0.12
    for at, shade in ((0.62, 0.65), (-0.55, 0.65), (0.75, 0.9),
                      (-0.72, 0.9)):
        x, step = at * half, dice.between(-0.16, 0.16)
        colour = tone(fur, shade)
        beast.limb((x, legs + depth * 0.25), (x + step * 0.2, legs * 0.5),
                   (thick * 1.7, thick), colour)
        beast.limb((x + step * 0.2, legs * 0.5), (x + step, 0.03),
                   (thick, thick * 0.8), tone(colour, 0.9))


def draw_coat(beast, kind, half, back, depth, crown, head, fur, dice):
    """Patches, a pale belly, horns or antlers."""
    if kind == 'cow' and dice.chance(0.7):
        patch = dice.pick([(226, 222, 214), (34, 32, 32)])
        for _ in range(4):
            beast.disc((dice.between(-.7, .6) * half,
                        back + dice.between(-.2, .25) * depth),
                       (dice.between(.12, .3), dice.between(.1, .2)), patch,
                       paint=True)
    else:
        beast.disc((0, back - depth * 0.28), (half * 0.7, depth * 0.16),
                   tone(fur, 0.75), paint=True)
        beast.disc((0, back + depth * 0.25), (half * 0.7, depth * 0.14),
                   tone(fur, 1.2), paint=True)
    x, y = crown[0], crown[1] + head * 0.5
    if kind == 'deer' and dice.chance(0.6):
        horn = (150, 128, 100)
        for lean in (-0.25, 0.1):
            beast.limb((x, y), (x + lean, y + 0.5), (0.05, 0.03), horn)
            beast.limb((x + lean / 2, y + 0.25),
                       (x + lean / 2 + 0.18, y + 0.45), (0.04, 0.03), horn)


def draw_ring(sprite, centre, radius, width, colour):
    """A wheel: tyre and spokes, or a plain disc where those would blur."""
    if radius * sprite.scale < 9:
        sprite.disc(centre, (radius,) * 2, tone(colour, 1.6))
        sprite.disc(centre, (radius * 0.7,) * 2, tone(colour, 2.2),
                    paint=True)
        return
    rim = wheel(centre, radius)
    sprite.path([*rim, rim[0]], width, colour)
    for spoke in rim[::2]:
        sprite.limb(centre, spoke, (0.02, 0.02), (122, 122, 122))


def draw_bicycle(canvas, x, z, size=None, turn=None):
    """Draw a bicycle."""
    dice = canvas.dice
    size = size or dice.between(0.85, 1.1)
    turn = turn or dice.sign() * dice.between(0.4, 1)
    bike = Sprite(canvas, x, z, size, turn)
    canvas.use(ids.BICYCLE, z, ids.PAINT)
    colour = dice.any_colour()
    for a in (-0.52, 0.52):
        draw_ring(bike, (a, 0.35), 0.33, 0.055, TYRE)
    seat, crank, head = (-0.2, 0.86), (-0.05, 0.32), (0.36, 0.86)
    for line in ([(-0.52, 0.35), crank, seat, (-0.52, 0.35)],
                 [seat, head, crank], [(0.52, 0.35), head, (0.33, 1.02)]):
        bike.path(line, 0.05, colour)
    bike.limb((-0.33, 0.92), (-0.1, 0.93), (0.09, 0.06), (36, 32, 30))
    bike.limb((0.24, 1.04), (0.42, 1.02), (0.05, 0.05), (52, 52, 54))
    return size, turn


def draw_motorcycle(canvas, x, z, size=None, turn=None):
    """Draw a motorcycle."""
    dice = canvas.dice
    size = size or dice.between(0.95, 1.15)
    turn = turn or dice.sign() * dice.between(0.45, 1)
    bike = Sprite(canvas, x, z, size, turn)
    canvas.use(ids.MOTORCYCLE, z, ids.PAINT)
    paint = dice.any_colour()
    for a in (-0.68, 0.68):
        bike.disc((a, 0.32), (0.32, 0.32), TYRE)
        bike.disc((a, 0.32), (0.18, 0.18), (104, 104, 106), paint=True)
    bike.poly([(-.45, .3), (-.4, .62), (.3, .66), (.4, .3)], (58, 58, 60))
    bike.poly([(-.85, .72), (-.8, .86), (-.1, .8), (0, .98), (.35, .98),
               (.5, .72), (.25, .6), (-.4, .6)], paint)
    bike.poly([(-.75, .82), (-.7, .92), (-.1, .86), (-.1, .78)], (34,) * 3)
    bike.limb((0.68, 0.32), (0.42, 1.05), (0.09, 0.07), (118, 118, 120))
    bike.limb((0.3, 1.1), (0.46, 1.06), (0.06, 0.05), (40, 40, 42))
    bike.limb((-0.2, 0.28), (-0.85, 0.36), (0.1, 0.12), (138, 136, 132))
    bike.disc((0.55, 0.92), (0.1, 0.12), (206, 204, 190))
    return size, turn


def draw_rider(canvas, x, z):
    """Someone on a bicycle or a motorcycle."""
    dice = canvas.dice
    motor = dice.chance(0.4)
    draw = draw_motorcycle if motor else draw_bicycle
    size, turn = draw(canvas, x, z)
    figure = Sprite(canvas, x, z, size, turn)
    canvas.use(ids.RIDER, z, ids.CLOTH)
    coat, cloth = dice.any_colour(), tone(dice.any_colour(), 0.7)
    skin = dice.tint(dice.pick(SKIN), 8)
    hip = (-0.25, 0.95)
    chest = (0.08 if motor else dice.between(-0.1, 0.12), 1.42)
    figure.path([hip, (0.12, 0.72), (-0.02, 0.3)], 0.14, tone(cloth, 0.75))
    figure.path([hip, (0.18, 0.85), (0.05, 0.42)], 0.15, cloth)
    figure.limb(hip, chest, (0.3, 0.36), coat)
    figure.path([chest, (0.2, 1.12), (0.36, 1.06)], 0.1, tone(coat, 0.85))
    at = (chest[0] + 0.08, chest[1] + 0.22)
    draw_head(figure, at, skin, coat, dice)
    if motor or dice.chance(0.5):
        figure.disc((at[0], at[1] + 0.05), (0.15, 0.13), dice.any_colour())


def draw_bags(canvas, x, z):
    """A heap of garbage bags."""
    dice = canvas.dice
    heap = Sprite(canvas, x, z, dice.between(0.8, 1.5))
    canvas.use(ids.OBJECT, z, ids.PAINT)
    colour = dice.pick([(34, 34, 36), (64, 66, 70), (206, 206, 200),
                        (54, 74, 110), (58, 78, 60), dice.any_colour()])
    for _ in range(dice.count(1, 5)):
        dx, wide = dice.between(-0.5, 0.5), dice.between(0.24, 0.4)
        high = wide * dice.between(0.8, 1.2)
        bag = dice.tint(colour, 8)
        heap.blob((dx, high * 0.9), (wide, high), bag, 0.08)
        heap.poly([(dx - .07, high * 1.75), (dx, high * 2.1),
                   (dx + .08, high * 1.75)], tone(bag, 0.8))
        for _ in range(3):  # creases
            a = dice.between(-0.6, 0.6) * wide
            heap.detail([(dx + a, high * 0.4), (dx + a * 0.4, high * 1.7),
                         (dx + a + 0.05, high * 0.5)],
                        tone(bag, dice.pick([0.6, 1.5])))


def draw_bin(canvas, x, z):
    """A trash can: a wheeled box or a round can on the pavement."""
    dice = canvas.dice
    canvas.use(ids.OBJECT, z, ids.PAINT)
    colour = dice.any_colour()
    high = dice.between(0.8, 1.3)
    if dice.chance(0.5):
        body = Body(canvas, x, z, dice.between(0, 2 * math.pi))
        body.hull([(-.28, .08), (-.36, high), (.36, high), (.28, .08)],
                  dice.between(0.5, 0.75), colour)
        body.hull(slab(-.4, .4, high, high + 0.1), 0.75, tone(colour, 1.2))
        return
    can = Sprite(canvas, x, z)
    can.poly([(-.26, .03), (-.3, high), (.3, high), (.26, .03)], colour)
    can.detail([(0, .03), (0, high), (.3, high), (.26, .03)],
               tone(colour, 0.72))
    for y in np.linspace(0.2, high - 0.15, 3):
        can.detail(box(-0.28, 0.28, y, y + 0.05), tone(colour, 0.8))
    can.disc((0, high), (0.32, 0.1), tone(colour, 1.15))
    can.disc((0, high), (0.2, 0.05), (26, 26, 26), paint=True)


def draw_stand(canvas, x, z):
    """A food stand under an awning or a parasol."""
    dice = canvas.dice
    canvas.use(ids.OBJECT, z, ids.PAINT)
    wide, deep = dice.between(1.2, 2.4), dice.between(0.8, 1.2)
    body = Body(canvas, x, z, math.pi / 2 + dice.between(-0.5, 0.5))
    colour, cloth = dice.any_colour(), dice.any_colour()
    body.hull(slab(-wide / 2, wide / 2, 0.15, 1.05), deep, colour)
    stand = Sprite(canvas, x, z - deep / 2)
    for _ in range(8):
        stand.disc((dice.between(-.45, .45) * wide, 1.1), (0.11, 0.11),
                   dice.any_colour())
    half = wide / 2 + 0.15
    for post in ((-half, half) if dice.chance(0.6) else (0,)):
        stand.limb((post * 0.9, 0.9), (post * 0.9, 2.3), (.07, .07),
                   (120, 116, 110))
    stand.poly([(-half, 2.1), (-half * 0.8, 2.55), (half * 0.8, 2.55),
                (half, 2.1)], cloth)
    edges = np.linspace(-half, half, 7)
    for left, right in zip(edges[::2], edges[1::2]):
        stand.detail([(left, 2.1), (left * 0.8, 2.55), (right * 0.8, 2.55),
                      (right, 2.1)], tone(cloth, 1.5))


def draw_tram(canvas, x, z, yaw):
    """Draw a tram."""
    dice = canvas.dice
    draw_coach(canvas, x, z, yaw, ids.TRAIN, dice.between(12, 20),
               dice.between(3, 3.6))
