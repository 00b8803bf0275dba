"""Turn numbers into colours on a fixed scale, with a colour bar."""
import cv2
import numpy as np

COLORMAPS = {
    'inferno': cv2.COLORMAP_INFERNO,
    'magma': cv2.COLORMAP_MAGMA,
    'viridis': cv2.COLORMAP_VIRIDIS,
}


def colour_table(colormap: str = 'inferno') -> np.ndarray:
    """The 256 RGB colours of a colour map, uint8 [256, 3]."""
    if colormap not in COLORMAPS:
        raise ValueError(f'colormap={colormap!r} must be one of '
                         f'{sorted(COLORMAPS)}.')
    ramp = np.arange(256, dtype=np.uint8)[:, None]
    table = cv2.applyColorMap(ramp, COLORMAPS[colormap])
    return table.reshape(256, 3)[:, ::-1].copy()


def colourise(values, scale, colormap='inferno') -> np.ndarray:
    """A map as RGB; values outside ``scale`` get the colour at its end."""
    low, high = scale
    steps = (np.nan_to_num(values, nan=high) - low) * (255 / (high - low))
    levels = np.clip(steps, 0, 255).astype(np.uint8)
    return cv2.applyColorMap(levels, colour_table(colormap)[:, None])


def range_of(values: np.ndarray) -> tuple[float, float]:
    """The range of 99 % of the finite values of a map."""
    values = values[np.isfinite(values)]
    if not values.size:
        return 0., 0.
    low, high = np.percentile(values, (0.5, 99.5))
    return float(low), float(high)


def scale_of(ranges, from_zero: bool) -> tuple[float, float]:
    """One colour scale for maps of these ranges, widened to two digits.

    Args:
        ranges (Sequence[tuple[float, float]]): See :func:`range_of`.
        from_zero (bool): Start at zero, and not at the lowest value.
    """
    low = 0. if from_zero else min(low for low, _ in ranges)
    high = max(high for _, high in ranges)
    if not high > low:
        return low, low + 1
    step = 10.**(np.floor(np.log10(high - low)) - 1)
    return (round(float(np.floor(low / step) * step), 9),
            round(float(np.ceil(high / step) * step), 9))


def palette_table(palette, num_classes: int = 0) -> np.ndarray:
    """A palette as uint8 RGB [256, 3], black beyond its end.

    Without a palette, ``num_classes`` colours whose hues are a golden angle
    apart, which keeps neighbouring ids well separated.
    """
    colours: np.ndarray = np.asarray(palette, np.uint8).reshape(-1, 3)[:256]
    if not len(colours):
        hues = np.arange(num_classes or 256) * 180 * 0.618034 % 180
        hsv = np.full((len(hues), 1, 3), 200, np.uint8)
        hsv[:, 0, 0] = hues
        colours = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)[:256, 0]
    table = np.zeros((256, 3), np.uint8)
    table[:len(colours)] = colours
    return table


def byte_ids(ids: np.ndarray, name: str) -> np.ndarray:
    """Class ids as bytes, for indexed pictures."""
    if ids.min() < 0 or ids.max() > 255:
        raise ValueError(f'{name!r}: class ids {ids.min()} to {ids.max()} do '
                         'not fit an indexed picture, which holds 0 to 255.')
    return ids.astype(np.uint8)


def shrunk(plane, side: int, interpolation=cv2.INTER_NEAREST) -> np.ndarray:
    """A plane of at most this longest side; the default mixes no values."""
    height, width = plane.shape[:2]
    ratio = side / max(height, width)
    if ratio >= 1:
        return plane
    if plane.dtype not in (np.uint8, np.float32):
        plane = plane.astype(np.float32)
    size = max(1, round(width * ratio)), max(1, round(height * ratio))
    return cv2.resize(plane, size, interpolation=interpolation)


def with_colour_bar(picture, scale, title, colormap='inferno') -> np.ndarray:
    """An RGB picture with a colour bar, its ends and a title on the right."""
    height = picture.shape[0]
    size = float(np.clip(height / 1000, 0.35, 1.2))
    margin, width = round(24 * size), round(36 * size)
    thick = max(1, round(1.4 * size))

    def extent(text):
        """Width and height of the text in pixels."""
        return cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, size, thick)[0]

    line = extent('0')[1]
    # A low bar has room for its ends only.
    count = 3 if height - 2 * margin > 4 * line else 2
    ticks = [
        f'{value:.3g}'
        for value in np.linspace(scale[0], scale[1], count)[::-1]
    ]
    text_width = max(extent(text)[0] for text in ticks)
    strip = np.full((height, 3 * margin + width + text_width, 3), 255,
                    np.uint8)
    top, bottom = margin, height - margin
    ramp = np.linspace(scale[1], scale[0], max(1, bottom - top))[:, None]
    strip[top:bottom, margin:margin + width] = colourise(ramp, scale, colormap)
    for text, place in zip(ticks, np.linspace(top + line, bottom, count)):
        cv2.putText(strip, text, (2 * margin + width, round(place)),
                    cv2.FONT_HERSHEY_SIMPLEX, size, (30, 30, 30), thick,
                    cv2.LINE_AA)
    return np.hstack([picture, _sideways(title, strip, size, thick)])


def _sideways(title, strip, size, thick):
    """Write the title along the bar; leave it out if it does not fit."""
    (width, height), base = cv2.getTextSize(
        title, cv2.FONT_HERSHEY_SIMPLEX, size, thick)
    if width > strip.shape[0]:
        return strip
    label = np.full((height + 2 * base, strip.shape[0], 3), 255, np.uint8)
    cv2.putText(label, title, ((strip.shape[0] - width) // 2, height + base),
                cv2.FONT_HERSHEY_SIMPLEX, size, (30, 30, 30), thick,
                cv2.LINE_AA)
    return np.hstack([strip, np.rot90(label)])
