"""People on foot: walking, standing, alone, in pairs, with bags."""
from abnn_mmseg.datasets.muad_sketch import ids
from abnn_mmseg.datasets.muad_sketch.dice import mix, tone
from abnn_mmseg.datasets.muad_sketch.sprite import Sprite, box

SKIN = [(226, 186, 158), (196, 148, 116), (140, 98, 72), (92, 64, 48)]
HAIR = [(34, 28, 24), (84, 60, 40), (150, 120, 72), (150, 148, 144)]


def draw_person(canvas, x, z):
    """Draw a person."""
    dice = canvas.dice
    size = dice.between(0.58, 0.75) if dice.chance(0.12) else dice.between(
        0.9, 1.08)
    turn = dice.sign() * dice.between(0.7, 1.05)
    figure = Sprite(canvas, x, z, size, turn)
    canvas.use(ids.PERSON, z, ids.CLOTH)
    skin = dice.tint(dice.pick(SKIN), 8)
    coat, legs = dice.any_colour(), tone(dice.any_colour(), 0.7)
    stride = dice.between(0.02, 0.34)
    draw_legs(figure, stride, legs)
    draw_trunk(figure, stride, coat, skin, dice)
    draw_head(figure, (0.02, 1.6), skin, coat, dice)
    if dice.chance(0.3):
        draw_bag(figure, dice)


def draw_pair(canvas, x, z):
    """Draw two persons side by side."""
    gap = canvas.dice.between(0.5, 0.8)
    draw_person(canvas, x - gap / 2, z + 0.2)
    draw_person(canvas, x + gap / 2, z)


def draw_legs(figure, stride, colour):
    """Draw the legs of a walking person."""
    shoe = tone(colour, 0.5)
    for hip, foot, knee, shade in ((0.07, -stride, -0.25, 0.78),
                                   (-0.05, stride, 0.65, 1.0)):
        bend = (foot * knee + 0.05, 0.47)
        cloth = tone(colour, shade)
        figure.limb((hip, 0.92), bend, (0.19, 0.14), cloth)
        figure.limb(bend, (foot, 0.06), (0.13, 0.1), cloth)
        figure.limb((foot - 0.03, 0.04), (foot + 0.14, 0.04), (0.08, 0.07),
                    shoe)


def draw_trunk(figure, stride, coat, skin, dice):
    """Draw the trunk and the arms of a person."""
    hem = dice.pick([0.9, 0.86, 0.84, 0.6, 0.5])
    wide = dice.between(0.19, 0.26)
    swing = stride * dice.between(-1, 1)
    sleeve = coat if dice.chance(0.75) else skin
    back = (0.1 - swing, 0.88)
    figure.path([(0.1, 1.38), (0.16 - swing / 2, 1.12), back], 0.1,
                tone(sleeve, 0.75))
    figure.poly([(-wide, 1.4), (-0.08, 1.48), (0.08, 1.48), (wide, 1.4),
                 (wide * 0.8, 1.0), (wide * (0.9 if hem > 0.8 else 1.1), hem),
                 (-wide * (0.9 if hem > 0.8 else 1.1), hem),
                 (-wide * 0.8, 1.0)], coat)
    left, right = sorted((0, figure.lit_side * wide * 0.7))
    figure.detail(box(left, right, hem + 0.05, 1.4), tone(coat, 1.18))
    hand = (-0.2 + swing, 0.86)
    figure.path([(-wide + 0.04, 1.38), (-0.24 + swing / 2, 1.12), hand],
                0.1, tone(sleeve, 0.92))
    figure.disc(hand, (0.05, 0.05), skin)


def draw_head(figure, at, skin, coat, dice):
    """Draw the head of a person."""
    x, y = at
    figure.limb((x, y - 0.16), at, (0.09, 0.09), tone(skin, 0.8))
    figure.disc((x, y), (0.1, 0.13), skin)
    top = coat if dice.chance(0.2) else dice.pick(HAIR)
    figure.disc((x - 0.02, y + 0.06), (0.11, 0.09), top)
    if dice.chance(0.35):  # long hair or a hood
        figure.poly(box(x - 0.12, x - 0.02, y - 0.16, y + 0.05), top)


def draw_bag(figure, dice):
    """Draw the bag of a person."""
    colour = mix(dice.any_colour(), (70, 60, 50), 0.4)
    if dice.chance(0.5):
        figure.disc((-0.24, 1.2), (0.12, 0.2), colour)
    else:
        figure.poly(box(-0.34, -0.12, 0.55, 0.85), colour)
