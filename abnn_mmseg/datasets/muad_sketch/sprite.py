"""Two ways to stand a thing in the street: flat figures and solid bodies."""
import math

from abnn_mmseg.datasets.muad_sketch.dice import tone

CIRCLE = [(math.cos(i * math.pi / 6), math.sin(i * math.pi / 6))
          for i in range(12)]


class Sprite:
    """A flat figure facing the camera, drawn in metres from its foot.

    Args:
        canvas (Canvas): Where to draw.
        x (float): World position of the foot.
        z (float): World distance of the foot.
        size (float): All metres are multiplied by this.
        turn (float): Sideways metres are multiplied by this: negative looks
            the other way, under 1 is foreshortened.
    """

    def __init__(self, canvas, x, z, size=1.0, turn=1.0):
        self.canvas = canvas
        self.foot, = canvas.camera.project([(x, 0, z)])
        self.scale = canvas.camera.scale(z) * size
        self.across = self.scale * turn
        self.lit_side = 1 if canvas.sky.sun[0] * turn > 0 else -1

    def pixels(self, points):
        """Places in the image of points on the sprite."""
        (left, low), wide, high = self.foot, self.across, self.scale
        return [(left + x * wide, low - y * high) for x, y in points]

    def poly(self, points, colour):
        """Fill a polygon."""
        self.canvas.fill([self.pixels(points)], colour)

    def detail(self, points, colour):
        """Paint a polygon, unless the sprite is too far away."""
        if self.scale > 15:
            self.canvas.paint([self.pixels(points)], colour)

    def disc(self, centre, radii, colour, paint=False):
        """Fill an ellipse, or paint one on what is there."""
        if paint and self.scale < 15:
            return
        place, = self.pixels([centre])
        self.canvas.ellipse(place, (radii[0] * self.across,
                                    radii[1] * self.scale), colour, paint)

    def blob(self, centre, radii, colour, rough=0.2, paint=False):
        """A disc with a ragged outline."""
        (x, y), (wide, high) = centre, radii
        about = self.canvas.dice.about
        outline = []
        for a, b in CIRCLE:
            reach = 1 + about(rough)
            outline.append((x + a * wide * reach, y + b * high * reach))
        draw = self.canvas.paint if paint else self.canvas.fill
        draw([self.pixels(outline)], colour)

    def limb(self, start, end, widths, colour):
        """A tapered bar with rounded ends, brighter on the sun's side."""
        corners = capsule(start, end, widths, 1.1 / self.scale)
        self.canvas.fill([self.pixels(corners)], colour)
        if self.scale > 26 and self.canvas.sky.direct > 0.2:
            aside = self.lit_side * widths[0] * 0.22
            inner = capsule((start[0] + aside, start[1]),
                            (end[0] + aside, end[1]),
                            (widths[0] * 0.45, widths[1] * 0.45), 0)
            self.canvas.paint([self.pixels(inner)], tone(colour, 1.25))

    def path(self, points, width, colour):
        """A bent bar."""
        for start, end in zip(points[:-1], points[1:]):
            self.limb(start, end, (width, width), colour)


def capsule(start, end, widths, least):
    """Corners of a tapered bar; never thinner than ``2 * least``."""
    (x0, y0), (x1, y1) = start, end
    length = math.hypot(x1 - x0, y1 - y0) or 1e-6
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    r0, r1 = max(widths[0] / 2, least), max(widths[1] / 2, least)
    return [(x0 - dy * r0, y0 + dx * r0), (x0 - dx * r0, y0 - dy * r0),
            (x0 + dy * r0, y0 - dx * r0), (x1 + dy * r1, y1 - dx * r1),
            (x1 + dx * r1, y1 + dy * r1), (x1 - dy * r1, y1 + dx * r1)]


class Body:
    """A solid with a side profile and a width, turned about the vertical.

    Local axes: a along the body (its front at +a), y up, b across it.

    Args:
        canvas (Canvas): Where to draw.
        x (float): World position of the middle.
        z (float): World distance of the middle.
        yaw (float): 0 drives away from the camera, pi towards it.
    """

    def __init__(self, canvas, x, z, yaw):
        self.canvas, self.x, self.z = canvas, x, z
        self.sin, self.cos = math.sin(yaw), math.cos(yaw)
        self.scale = canvas.camera.scale(z)

    def world(self, points):
        """Local (a, y, b) points to world points."""
        sin, cos = self.sin, self.cos
        return [(self.x + a * sin + b * cos, y, self.z + a * cos - b * sin)
                for a, y, b in points]

    def turned(self, normal):
        """A direction of the body in the world's axes."""
        a, y, b = normal
        return (a * self.sin + b * self.cos, y, a * self.cos - b * self.sin)

    def faces_camera(self, normal, point):
        """Whether a face of the body can be seen."""
        (x, y, z), = self.world([point])
        camera = self.canvas.camera
        side = x - camera.x + camera.bend * z * z
        n = self.turned(normal)
        return n[0] * side + n[1] * (y - camera.eye) + n[2] * z < 0

    def sides(self, width):
        """The b (-width / 2 or width / 2) of the sides the camera sees."""
        return [sign * width / 2 for sign in (-1, 1) if self.faces_camera(
            (0, 0, sign), (0, 0.5, sign * width / 2))]

    def hull(self, profile, width, colour, edge_colours=None):
        """Draw the solid; profile runs up the rear, over the top, down.

        Args:
            profile (list): Corners (a, y).
            width (float): Extent across.
            colour (tuple): Of the sides and of edges not listed.
            edge_colours (dict, optional): Colour of edge i, from corner i.
        """
        canvas, half = self.canvas, width / 2
        left, right = (canvas.camera.project(self.world(
            [(a, y, b) for a, y in profile])) for b in (-half, half))
        n = len(profile)
        # Parts of a profile may hide each other: the far faces go first.
        for i in sorted(range(n), key=lambda i: -self.cos * (
                profile[i][0] + profile[i - n + 1][0])):
            j = i - n + 1
            if turns_left(left[i], right[i], right[j]):
                along, up = (profile[j][k] - profile[i][k] for k in (0, 1))
                length = math.hypot(up, along) or 1
                normal = self.turned((-up / length, along / length, 0))
                face = (edge_colours or {}).get(i, colour)
                canvas.fill([[left[i], right[i], right[j], left[j]]],
                            canvas.lit(face, normal))
        for b in self.sides(width):
            normal = self.turned((0, 0, 1 if b > 0 else -1))
            canvas.fill([left if b < 0 else right],
                        canvas.lit(colour, normal))

    def side(self, polygons, b, colour, solid=False):
        """Details on a side, from (a, y) corners."""
        if solid or self.scale > 14:
            draw = self.canvas.solid if solid else self.canvas.detail
            draw([self.world([(a, y, b) for a, y in polygon])
                  for polygon in polygons], colour)

    def end(self, polygons, a, colour, solid=False):
        """Details on an end, from (b, y) corners."""
        if solid or self.scale > 14:
            draw = self.canvas.solid if solid else self.canvas.detail
            draw([self.world([(a, y, b) for b, y in polygon])
                  for polygon in polygons], colour)


def turns_left(first, second, third):
    """Whether three pixels go anticlockwise on screen (y points down)."""
    return ((second[0] - first[0]) * (third[1] - second[1])
            - (second[1] - first[1]) * (third[0] - second[0])) < 0


def box(left, right, low, high):
    """Corners of a rectangle."""
    return [(left, low), (left, high), (right, high), (right, low)]


def wheel(centre, radius):
    """Corners of a circle."""
    return [(centre[0] + radius * a, centre[1] + radius * b)
            for a, b in CIRCLE]
