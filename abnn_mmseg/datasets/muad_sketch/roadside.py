"""What lines the street: buildings, walls, fences, hedges and trees."""
import numpy as np

from abnn_mmseg.datasets.muad_sketch import ids
from abnn_mmseg.datasets.muad_sketch.dice import mix, tone
from abnn_mmseg.datasets.muad_sketch.sprite import Sprite

FACADES = [(168, 150, 128), (150, 92, 72), (186, 180, 168), (172, 120, 92),
           (200, 184, 150), (156, 128, 98), (122, 74, 60), (158, 132, 120),
           (112, 128, 138), (208, 204, 198)]
LEAVES = [(66, 92, 44), (84, 108, 52), (58, 80, 50), (110, 112, 54),
          (128, 92, 48), (48, 70, 44), (92, 86, 60)]


class Building:
    """A house along one side, drawn bay by bay from far to near.

    Args:
        canvas (Canvas): Where its bays will be drawn.
        side (int): -1 left, 1 right.
        front (float): x of the facade.
        near (float): z of its near end.
        far (float): z of its far end.
        tall (float): Multiplies its height.
    """

    def __init__(self, canvas, side, front, near, far, tall=1.):
        dice = canvas.dice
        self.side, self.front, self.near, self.far = side, front, near, far
        self.floor = dice.between(2.8, 3.8)
        self.floors = max(1, round(dice.between(1, 6) * tall))
        self.height = self.floor * self.floors + dice.between(0.3, 1)
        self.colour = dice.tint(dice.pick(FACADES))
        self.brick = ids.BRICK if dice.chance(0.4) else ids.PLASTER
        self.roof = dice.between(1, 3) if dice.chance(0.5) else 0
        self.tiles = dice.tint(dice.pick([(120, 62, 48), (70, 68, 70),
                                          (98, 80, 66)]), 10)
        self.pitch = dice.between(1.6, 4)
        self.window = (dice.between(0.35, 0.8), dice.between(0.35, 0.75))
        self.glass = dice.tint(dice.pick([(52, 60, 70), (84, 98, 112),
                                          (40, 40, 44), (140, 152, 160)]))
        self.shop = dice.chance(0.35)
        self.sign = dice.any_colour()
        self.lit = dice.between(0.05, 0.6) if canvas.sky.dark else 0

    def draw_end(self, canvas):
        """The end wall that faces the camera."""
        x0, x1 = self.front, self.front + self.side * 14
        top = [(x1, self.height, self.near), (x0, self.height, self.near)]
        if self.roof:
            middle = (x0 + self.side * 4, self.height + self.roof * 1.3,
                      self.near)
            top = [(x0 + self.side * 8, self.height, self.near), middle,
                   top[1]]
        canvas.use(ids.BUILDING, self.near, self.brick)
        wall = [(x0, 0, self.near), (x1, 0, self.near),
                (x1, self.height, self.near), *top]
        canvas.solid([wall], canvas.lit(self.colour, (0, 0, -1)))
        if canvas.camera.scale(self.near) > 8:
            holes = [[(x, y, self.near) for x, y in (
                (a, b), (a, b + 1.3), (a + self.side, b + 1.3),
                (a + self.side, b))]
                for a in (self.front + self.side * step
                          for step in (1.2, 4.4, 7.6))
                for b in (0.9 + i * self.floor for i in range(self.floors))]
            canvas.detail(holes, self.glass)

    def draw_bay(self, canvas, near, far):
        """Draw a stretch of the front."""
        normal, x = (-self.side, 0, 0), self.front
        canvas.use(ids.BUILDING, (near + far) / 2, self.brick)
        wall = canvas.lit(self.colour, normal)
        if self.roof:
            y, back = self.height, x + self.side * 3
            canvas.solid([[(x, y, near), (x, y, far),
                           (back, y + self.roof, far),
                           (back, y + self.roof, near)]],
                         canvas.lit(self.tiles, (-self.side * 0.5, 0.8, 0)))
        canvas.solid([upright(x, near, far, 0, self.height)], wall)
        if canvas.camera.scale(far) < 6:
            return
        self.draw_windows(canvas, near, far)
        ledge = [upright(x, near, far, y, y + 0.18) for y in
                 (self.floor * 0.98, self.height - 0.3)]
        canvas.detail(ledge, tone(wall, 1.18))

    def draw_windows(self, canvas, near, far):
        """Draw the windows of a stretch of the front."""
        dice, x = canvas.dice, self.front
        wide, high = self.window
        columns = np.arange(near + 0.3, far - 0.5, self.pitch).tolist()
        panes = [upright(x, z, min(z + self.pitch * wide, far),
                         y + 0.85, y + 0.85 + (self.floor - 0.9) * high)
                 for z in columns
                 for y in (i * self.floor for i in range(self.floors))
                 if y or not self.shop]
        lit = [pane for pane in panes if dice.chance(self.lit)]
        if panes:
            tint = mix(self.glass, canvas.sky.zenith, 0.3)
            canvas.detail(panes, dice.tint(tint, 8))
        if self.shop:
            canvas.detail([upright(x, near, far, 0.4, 2.4)],
                          tone(self.glass, 1.1))
            canvas.detail([upright(x, near, far, 2.5, 3.1)], self.sign)
            if self.lit > 0.3:
                lit.append(upright(x, near + 0.3, far - 0.3, 0.5, 2.3))
        if lit:
            canvas.use(ids.BUILDING, (near + far) / 2, ids.SHINING)
            canvas.solid(lit, dice.tint((214, 176, 104)))


def upright(x, near, far, low, high):
    """Corners of an upright rectangle along the street."""
    return [(x, low, near), (x, high, near), (x, high, far), (x, low, far)]


def draw_wall(canvas, side, x, near, far, height):
    """A garden wall, retaining wall or concrete barrier."""
    dice = canvas.dice
    material = ids.BRICK if dice.chance(0.5) else ids.PLASTER
    colour = dice.tint(dice.pick(FACADES))
    canvas.use(ids.WALL, (near + far) / 2, material)
    thick = x + side * 0.3
    canvas.solid([[(x, 0, near), (thick, 0, near), (thick, height, near),
                   (x, height, near)]], canvas.lit(colour, (0, 0, -1)))
    canvas.solid([upright(x, near, far, 0, height)],
                 canvas.lit(colour, (-side, 0, 0)))
    canvas.detail([upright(x, near, far, height - 0.12, height)],
                  tone(colour, 1.15))


def draw_fence(canvas, x, near, far, height, colour, solid):
    """Pickets or mesh: the label covers the gaps too, as annotators do."""
    area = canvas.camera.project(upright(x, near, far, 0.05, height))
    canvas.use(ids.FENCE, (near + far) / 2, ids.PAINT)
    canvas.mark([area])
    canvas.glaze(area, colour, solid)
    posts = np.arange(near, far, 0.45 if near < 16 else 1.2).tolist()
    wide = 0.09 if near < 16 else 0.25
    canvas.detail([upright(x, z, z + wide, 0, height) for z in posts],
                  colour)
    rails = [upright(x, near, far, y, y + 0.08)
             for y in (0.25 * height, 0.9 * height)]
    canvas.detail(rails, tone(colour, 0.85))


def draw_tree(canvas, x, z, height, kind, colour):
    """Draw a tree."""
    dice = canvas.dice
    tree = Sprite(canvas, x, z)
    canvas.use(ids.VEGETATION, z, ids.LEAF)
    bark = dice.tint((86, 70, 56), 14)
    crown = height * (0.62 if kind != 'cone' else 0.5)
    thick = 0.04 * height
    lean = dice.between(-0.06, 0.06) * height
    tree.limb((0, 0), (lean, crown), (thick * 1.4, thick), bark)
    if kind == 'cone':
        for low, wide in ((0.12, 0.24), (0.34, 0.19), (0.58, 0.12)):
            tip = height * (low + 0.42)
            tree.poly([(-wide * height, low * height), (lean, tip),
                       (wide * height, low * height)],
                      dice.tint(colour, 10))
        return
    wide = height * (0.14 if kind == 'poplar' else 0.28)
    high, middle = height * 0.3, height * 0.7
    tree.blob((lean, middle), (wide, high), colour, 0.16)
    for bright in (0.72, 1.0, 1.3, 1.15):  # clumps, lighter towards the top
        if tree.scale * height < 30:
            break
        dx, dy = dice.about(0.4) * wide, (bright - 0.95) * high
        tree.blob((lean + dx, middle + dy), (wide * 0.6, high * 0.45),
                  dice.tint(tone(colour, bright), 8))


def draw_bush(canvas, x, z, size, colour):
    """Draw a bush."""
    dice = canvas.dice
    bush = Sprite(canvas, x, z, size)
    canvas.use(ids.VEGETATION, z, ids.LEAF)
    for _ in range(4):
        bush.blob((dice.between(-0.4, 0.4), dice.between(0.25, 0.6)),
                  (dice.between(0.25, 0.5), dice.between(0.25, 0.4)),
                  dice.tint(colour, 12))


def draw_hedge(canvas, side, x, near, far, height, colour):
    """A clipped hedge, its top a little uneven."""
    dice = canvas.dice
    canvas.use(ids.VEGETATION, (near + far) / 2, ids.LEAF)
    depths = np.linspace(near, far, 7).tolist()
    tops = [height + dice.about(0.08) for _ in range(7)]
    canvas.solid([[(x, 0, near), (x + side, 0, near),
                   (x + side, height, near), (x, tops[0], near)]],
                 canvas.lit(colour, (0, 0, -1)))
    face = [(x, y, z) for y, z in zip(tops, depths)]
    canvas.solid([[(x, 0, near), *face, (x, 0, far)]],
                 canvas.lit(colour, (-side, 0.3, 0)))
