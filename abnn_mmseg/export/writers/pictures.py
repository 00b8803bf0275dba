"""Write pictures: heat map, overlay, mask, prediction in its palette."""
import io

import cv2
import numpy as np
from PIL import Image

from abnn_mmseg.export.writers.arrays import encode_picture
from abnn_mmseg.export.writers.base import MapWriter, Writer
from abnn_mmseg.utils import atomic_write
from abnn_mmseg.utils.colours import (
    byte_ids,
    colourise,
    palette_table,
    with_colour_bar,
)


class HeatmapWriter(MapWriter):
    """Writes each map in colours, with one scale for the whole set."""

    format, suffix = 'heatmap', '.png'

    def encode(self, result, score):
        """The picture with its colour bar as a PNG."""
        scale = self.settings.picture_range(score)
        colormap = self.settings.colormap
        picture = self.compose(
            result, colourise(result.map(score), scale, colormap))
        picture = with_colour_bar(picture, scale, score, colormap)
        return encode_picture('.png', picture[..., ::-1])

    def compose(self, result, heat: np.ndarray) -> np.ndarray:
        """The picture beside the colour bar."""
        return heat


class OverlayWriter(HeatmapWriter):
    """Writes the heat map over the image in grey."""

    format = 'overlay'

    def compose(self, result, heat):
        """The heat map over the image in grey."""
        if result.image is None:
            raise ValueError(f'{result.name!r} comes without its image, '
                             "which an overlay needs: use 'heatmap'.")
        grey = cv2.cvtColor(result.image, cv2.COLOR_RGB2GRAY)
        grey = cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB)
        opacity = self.settings.opacity
        return cv2.addWeighted(heat, opacity, grey, 1 - opacity, 0)


class MaskWriter(MapWriter):
    """Writes a PNG per map: white from the threshold on, else black."""

    format, suffix = 'mask', '.png'

    def __init__(self, settings):
        super().__init__(settings)
        settings.require_thresholds('mask')

    def encode(self, result, score):
        """The mask as a PNG, 255 where the score is reached."""
        mask = result.map(score) >= self.settings.given_threshold(score)
        return encode_picture('.png', mask.astype(np.uint8) * 255)


class PredictionWriter(Writer):
    """Writes an indexed PNG of the class ids, with the palette."""

    def paths(self, name):
        """The picture of one image."""
        return [self.folder / 'prediction' / f'{name}.png']

    def save(self, result):
        """Write the picture of one image."""
        settings = self.settings
        picture = Image.fromarray(byte_ids(result.prediction, result.name))
        picture.putpalette(
            palette_table(settings.palette, len(settings.classes)).tobytes())
        buffer = io.BytesIO()
        picture.save(buffer, 'PNG')
        atomic_write(self.paths(result.name)[0], buffer.getvalue())
