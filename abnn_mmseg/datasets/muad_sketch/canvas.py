"""The drawing surface: what a camera sees, and what each pixel is."""
from dataclasses import dataclass

import cv2
import numpy as np

SHIFT = 4  # sub-pixel bits of OpenCV's integer coordinates
UNIT = 1 << SHIFT
METRES_PER_CODE = 0.5  # depth is stored in a byte; 255 is the sky
NEAREST = 0.8


@dataclass
class Camera:
    """A pin-hole camera over a flat world whose streets may bend.

    World axes in metres: x right of the road's middle, y up, z ahead.

    Args:
        width (int): Pixels across.
        height (int): Pixels down.
        focal (float): Focal length in pixels.
        centre (float): Column of the vanishing point.
        horizon (float): Row of the horizon.
        eye (float): Height of the camera.
        x (float): Where the camera is across the road.
        bend (float): Curvature: the world moves sideways by bend * z ** 2.
    """
    width: int
    height: int
    focal: float
    centre: float
    horizon: float
    eye: float
    x: float
    bend: float

    def project(self, points):
        """World points to pixels.

        A scene is thousands of polygons of four corners: plain floats are
        several times faster here than arrays.
        """
        focal, centre, horizon = self.focal, self.centre, self.horizon
        aside, eye, bend = self.x, self.eye, self.bend
        pixels = []
        for x, y, z in points:
            scale = focal / max(z, NEAREST)
            pixels.append((centre + (x - aside + bend * z * z) * scale,
                           horizon + (eye - y) * scale))
        return pixels

    def across(self, column, z):
        """The x of what is seen at an image column and a distance."""
        return ((column - self.centre) * z / self.focal + self.x
                - self.bend * z * z)

    def scale(self, z):
        """Pixels of a metre at a distance."""
        return self.focal / max(z, NEAREST)


def fixed(polygons):
    """Pixels to the fixed-point integers OpenCV draws sub-pixels with."""
    return [np.array([(int(x * UNIT), int(y * UNIT)) for x, y in polygon],
                     np.int32) for polygon in polygons]


class Canvas:
    """Colours plus, for every pixel, its class, distance and material.

    Colour is drawn with anti-aliasing and the rest without, from the same
    corners, so labels agree with what is seen. ``use`` takes up a pen, the
    methods below it draw with it.

    Args:
        camera (Camera): From where the world is seen.
        dice (Dice): The scene's random choices.
        sky (Sky): Light and weather; see ``weather.py``.
    """

    def __init__(self, camera, dice, sky):
        self.camera, self.dice, self.sky = camera, dice, sky
        shape = (camera.height, camera.width, 3)
        self.colour = np.zeros(shape, np.uint8)
        self.buffer = np.zeros(shape, np.uint8)
        self.glows = []  # (pixel, radius, colour) of what shines at night
        self.lamps = []  # the same, for lights bright enough to light a street
        self.use(0, 0, 0)

    def use(self, label, z, material):
        """Set the label, distance and material of what is drawn next."""
        code = 255 if z is None else min(max(z, 0) / METRES_PER_CODE, 254)
        self.pen = (int(label), int(code), int(material))

    def fill(self, polygons, colour):
        """Fill polygons of pixels with a colour, as the pen's object."""
        corners = fixed(polygons)
        cv2.fillPoly(self.colour, corners, colour, cv2.LINE_AA, SHIFT)
        cv2.fillPoly(self.buffer, corners, self.pen, cv2.LINE_8, SHIFT)

    def paint(self, polygons, colour):
        """Fill polygons with a colour: a detail of what is there already."""
        cv2.fillPoly(self.colour, fixed(polygons), colour, cv2.LINE_AA,
                     SHIFT)

    def mark(self, polygons):
        """Give polygons to the pen's object without changing colours."""
        cv2.fillPoly(self.buffer, fixed(polygons), self.pen, cv2.LINE_8,
                     SHIFT)

    def ellipse(self, centre, radii, colour, paint=False):
        """Fill an ellipse; ``paint`` colours it without a label."""
        place = tuple(int(c * UNIT) for c in centre)
        axes = tuple(int(abs(r) * UNIT) for r in radii)
        cv2.ellipse(self.colour, place, axes, 0, 0, 360, colour, -1,
                    cv2.LINE_AA, SHIFT)
        if not paint:
            cv2.ellipse(self.buffer, place, axes, 0, 0, 360, self.pen, -1,
                        cv2.LINE_8, SHIFT)

    def cover(self, top, colour):
        """Fill everything from a row down."""
        corner = (self.camera.width, self.camera.height)
        cv2.rectangle(self.colour, (0, top), corner, colour, -1)
        cv2.rectangle(self.buffer, (0, top), corner, self.pen, -1)

    def glaze(self, polygon, colour, opacity):
        """Colour a polygon, leaving what is behind it visible."""
        size = (self.camera.width, self.camera.height)
        low = np.clip(np.min(polygon, 0), 0, size).astype(int)
        high = np.clip(np.max(polygon, 0) + 2, 0, size).astype(int)
        if (high <= low).any():
            return
        patch = self.colour[low[1]:high[1], low[0]:high[0]]
        tinted = patch.copy()
        corners = fixed([np.asarray(polygon) - low])
        cv2.fillPoly(tinted, corners, colour, cv2.LINE_AA, SHIFT)
        patch[:] = cv2.addWeighted(tinted, opacity, patch, 1 - opacity, 0)

    def solid(self, polygons, colour):
        """``fill`` for polygons of world points."""
        self.fill([self.camera.project(p) for p in polygons], colour)

    def detail(self, polygons, colour):
        """``paint`` for polygons of world points."""
        self.paint([self.camera.project(p) for p in polygons], colour)

    def lit(self, colour, normal):
        """The colour of a face under the sun (Lambert's cosine)."""
        (a, b, c), (x, y, z) = normal, self.sky.sun
        factor = self.sky.ambient + self.sky.direct * max(
            a * x + b * y + c * z, 0)
        return tuple([min(part * factor, 255) for part in colour])

    def glow(self, point, metres, colour, lamp=False):
        """Note a light at a world point, drawn last if it is dark."""
        pixel, = self.camera.project([point])
        radius = metres * self.camera.scale(point[2])
        (self.lamps if lamp else self.glows).append((pixel, radius, colour))

    def labels(self):
        """The label map at half the drawing's resolution."""
        return np.ascontiguousarray(self.buffer[1::2, 1::2, 0])
