"""The plan of a street: its cross-section, and things placed along it."""
from dataclasses import dataclass
from functools import partial
from typing import Callable, NamedTuple, Optional

FAR = 125.  # metres to where the street ends


class Item(NamedTuple):
    """Something to draw.

    Args:
        z (float): Its far end; far things are drawn first.
        draw (Callable): How, without arguments.
        x (float): Where across the street.
        near (float): Its near end.
        half (float): Half its width; 0 casts no shadow.
        height (float): Its height.
    """
    z: float
    draw: Callable
    x: float
    near: float
    half: float = 0
    height: float = 0


def standing(canvas, draw, x, z, half, height, *args):
    """The item of a drawing function that takes a place."""
    draw = partial(draw, canvas, x, z, *args)
    return Item(z, draw, x, z, half, height)


@dataclass
class Street:
    """The cross-section of a street, in metres from its middle.

    Args:
        style (str): 'urban', 'suburb', 'park' or 'works'.
        half (float): Half the width of the road.
        lanes (list[float]): Middles of the lanes.
        kerbs (dict): Width of the pavement on side -1 and on side +1.
        fronts (dict): Where facades begin on side -1 and on side +1.
        crossing (tuple, optional): Near and far edge of a side street.
    """
    style: str
    half: float
    lanes: list
    kerbs: dict
    fronts: dict
    crossing: Optional[tuple] = None

    @classmethod
    def roll(cls, dice):
        """Draw a random street."""
        style = dice.weighted(dict(urban=5, suburb=3, park=2, works=2))
        width = dice.between(2.8, 3.7)
        count = dice.pick([2, 2, 2, 3, 4])
        half = count * width / 2 + dice.between(0.2, 1.6)
        kerbs = {s: dice.between(1.6, 4.5) for s in (-1, 1)}
        lawn = 0.2 if style == 'urban' else 0.8
        fronts = {
            s: half + kerbs[s]
            + (dice.between(1, 7) if dice.chance(lawn) else 0)
            for s in (-1, 1)}
        near = dice.between(9, 45)
        crossing = ((near, near + dice.between(6, 10))
                    if dice.chance(0.4) else None)
        lanes = [(i + 0.5) * width - count * width / 2
                 for i in range(count)]
        return cls(style, half, lanes, kerbs, fronts, crossing)
