"""From the drawn scene to a photograph: texture, light, air, lens, sensor."""
import cv2
import numpy as np

from abnn_mmseg.datasets.muad_sketch import ids
from abnn_mmseg.datasets.muad_sketch.canvas import METRES_PER_CODE
from abnn_mmseg.datasets.muad_sketch.textures import SIDE, cut, noise

# How much of each noise a material shows: grain, smooth, leaf, brick.
TEXTURE = np.zeros((256, 4), np.float32)
TEXTURE[ids.PLASTER] = (0.05, 0.09, 0, 0)
TEXTURE[ids.BRICK] = (0.03, 0.06, 0, 0.09)
TEXTURE[ids.LEAF] = (0.08, 0.06, 0.24, 0)
TEXTURE[ids.PAINT] = (0.02, 0.05, 0, 0)
TEXTURE[ids.CLOTH] = (0.06, 0.06, 0.07, 0)
TEXTURE[ids.GRASS] = (0.04, 0.08, 0.06, 0)
TEXTURE[ids.ASPHALT] = (0, 0.05, 0, 0)
TEXTURE[ids.PAVING] = (0, 0.05, 0, 0)
# How much of the ground tile: rough, slabs.
GROUND = np.zeros((256, 2), np.float32)
GROUND[ids.ASPHALT] = (0.1, 0)
GROUND[ids.GRASS] = (0.2, 0)
GROUND[ids.PAVING] = (0.02, 0.1)

TILE_PIXELS_PER_METRE = 40


def render(canvas):
    """The photograph [H, W, 3], at half the drawing's resolution."""
    clear = clearness(canvas)
    # Fog weakens colours before they are averaged: after, a dark rim would
    # be left where a fogged roof meets the sky.
    seen = cv2.multiply(canvas.colour, cv2.merge([clear] * 3), scale=1 / 255)
    image = half(canvas, seen).astype(np.float32)
    scale(image, texture(canvas))
    light(canvas, image)
    if canvas.sky.wet:
        reflect(canvas, image)
    air(canvas, image, half(canvas, clear))
    return sensor(canvas, lens(canvas, image))


def half(canvas, drawing):
    """Shrink a drawing to half its size, which smooths its edges."""
    size = (canvas.camera.width // 2, canvas.camera.height // 2)
    return cv2.resize(drawing, size, interpolation=cv2.INTER_AREA)


def scale(image, factor):
    """Multiply all channels by a map, in place."""
    cv2.multiply(image, cv2.merge([factor] * 3), dst=image)


def texture(canvas):
    """A brightness factor for every pixel, from its material."""
    material = np.ascontiguousarray(canvas.buffer[1::2, 1::2, 2])
    factor = np.ones(material.shape, np.float32)
    for i, name in enumerate(('grain', 'smooth', 'leaf', 'brick')):
        tile = cut(name, canvas.dice, material.shape)
        factor += cv2.LUT(material, TEXTURE[:, i]) * tile
    top = int(np.clip(canvas.camera.horizon / 2 + 1, 0, len(material) - 1))
    tile = ground_tile(canvas, top, material.shape)
    for i in range(2):
        factor[top:] += cv2.LUT(material[top:], GROUND[:, i]) * tile[..., i]
    return factor


def ground_tile(canvas, top, shape):
    """The ground's noise, seen in perspective and faded with distance."""
    camera, dice = canvas.camera, canvas.dice
    rows = np.arange(top, shape[0], dtype=np.float32)[:, None] * 2 + 1
    columns = np.arange(shape[1], dtype=np.float32)[None] * 2 + 1
    z = camera.focal * camera.eye / (rows - camera.horizon)
    x = (columns - camera.centre) * (z / camera.focal)
    x += camera.x - camera.bend * z * z + dice.between(0, 12)
    tile = cv2.remap(noise('ground'), x * TILE_PIXELS_PER_METRE % SIDE,
                     z * TILE_PIXELS_PER_METRE % SIDE + np.zeros_like(x),
                     cv2.INTER_LINEAR, borderMode=cv2.BORDER_WRAP)
    near = np.exp(-z / 22)  # finer than a pixel farther away: fade it
    return tile * near[..., None]


def light(canvas, image):
    """Exposure; at night also headlights and lamps, but not on what shines."""
    sky, camera = canvas.sky, canvas.camera
    gain = np.asarray(sky.gain, np.float32)
    level = np.ones(image.shape[:2], np.float32)
    if sky.dark:
        reach = np.exp(-np.arange(256) * METRES_PER_CODE / 16)
        beam = half(canvas, look_up(canvas, 1, reach))
        aside = np.linspace(0, 1, image.shape[1]) - (
            camera.centre / camera.width)
        beam *= np.exp(-(aside / 0.33) ** 2).astype(np.float32)
        level += beam * canvas.dice.between(0.8, 2.2)
        level += glow_map(canvas, canvas.lamps, 5.)[..., 1] / 60
    shines = np.zeros(256)
    shines[[ids.AIR, ids.SHINING]] = 1
    own = half(canvas, look_up(canvas, 2, shines))
    level *= 1 - own
    image *= cv2.merge([level * g + own * sky.exposure for g in gain])


def look_up(canvas, channel, table):
    """A table's value for every pixel's distance (1) or material (2)."""
    return cv2.LUT(cv2.extractChannel(canvas.buffer, channel),
                   np.asarray(table, np.float32))


def glow_map(canvas, glows, spread):
    """Soft discs of light, at the photograph's resolution."""
    height, width = canvas.camera.height, canvas.camera.width
    small = np.zeros((height // 4, width // 4, 3), np.float32)
    for (x, y), radius, colour in glows:
        spot = int(min(max(radius * spread / 4, 1), width / 40))
        if -width < x < 2 * width and -height < y < 2 * height:
            cv2.circle(small, (int(x / 4), int(y / 4)), spot, colour, -1)
    small = cv2.GaussianBlur(small, (0, 0), width / 100)
    return cv2.resize(small, (width // 2, height // 2))


def reflect(canvas, image):
    """Mirror what stands above the wet road in it, smeared downwards."""
    height = len(image)
    top = int(np.clip(canvas.camera.horizon / 2, 1, height - 1))
    mirror = cv2.blur(image[max(2 * top - height, 0):top][::-1], (3, 13))
    rows = slice(top, top + len(mirror))
    wet = np.zeros(256)
    wet[ids.ASPHALT] = canvas.dice.between(0.2, 0.5)
    share = half(canvas, look_up(canvas, 2, wet))[rows]
    puddles = cut('smooth', canvas.dice, share.shape)
    share = share * np.clip(0.7 + 0.4 * puddles, 0.1, 1)
    image[rows] += (mirror - image[rows] * 0.5) * share[..., None]


def clearness(canvas):
    """How much of each pixel's colour fog lets through, of 255."""
    metres = np.arange(256) * METRES_PER_CODE
    table = 255 * np.exp(-canvas.sky.fog * metres)
    table[255] = 255  # the sky was painted with its haze
    return cv2.LUT(cv2.extractChannel(canvas.buffer, 1),
                   table.astype(np.uint8))


def air(canvas, image, clear):
    """Add the light of fog, and the halos of lamps."""
    veil = (255 - clear) * np.float32(canvas.sky.exposure / 255)
    image += cv2.merge([veil * np.float32(c) for c in canvas.sky.haze])
    if canvas.sky.dark:
        halo = 1.6 if canvas.sky.weather in ('fog', 'rain') else 1.1
        image += 0.55 * glow_map(canvas, canvas.glows + canvas.lamps, halo)


def lens(canvas, image):
    """Rain streaks, focus, vignetting and contrast."""
    dice = canvas.dice
    height, width = image.shape[:2]
    if canvas.sky.wet:
        image += cv2.merge([rain(canvas, (height, width))] * 3)
    blur = dice.between(0.2, 0.5) * width / 256
    image = cv2.GaussianBlur(image, (0, 0), max(blur, 0.2))
    y, x = np.ogrid[-1:1:height * 1j, -1:1:width * 1j]
    edge = np.float32(1 - dice.between(0, 0.17) * (x * x + y * y))
    scale(image, edge)
    contrast = dice.between(0.94, 1.08)
    return (image - 110) * contrast + 110 * dice.between(0.97, 1.03)


def rain(canvas, shape):
    """Streaks: sparse drops smeared along the wind."""
    dice = canvas.dice
    drops = (dice.rng.random(shape, np.float32) > 0.992).astype(np.float32)
    length = 9
    slant = dice.between(-0.4, 0.4)
    kernel = np.zeros((length, length), np.float32)
    middle = length // 2
    cv2.line(kernel, (round(middle - slant * middle), 0),
             (round(middle + slant * middle), length - 1), 1.)
    strength = dice.between(14, 38)
    return cv2.filter2D(drops, -1, kernel) * strength


def sensor(canvas, image):
    """Shot and read noise, then a camera's compression."""
    dice = canvas.dice
    night = 1.7 if canvas.sky.dark else 1
    # Demosaicing leaves noise that neighbours share.
    grain = cv2.GaussianBlur(cut('sensor', dice, image.shape[:2]), (0, 0),
                             dice.between(0.3, 0.6))
    sigma = dice.between(1, 3) * night
    image = image + grain * (sigma * (0.6 + np.sqrt(np.abs(image)) / 20))
    image = np.clip(image, 0, 255).astype(np.uint8)
    quality = dice.count(75, 95)
    _, data = cv2.imencode('.jpg', image, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return cv2.imdecode(data, cv2.IMREAD_COLOR)
