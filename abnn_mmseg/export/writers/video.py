"""Write one video per map: overlay, or image and map side by side."""
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from abnn_mmseg.export.writers.arrays import encode_picture
from abnn_mmseg.export.writers.base import MapWriter
from abnn_mmseg.export.writers.settings import slug
from abnn_mmseg.utils.colours import colourise
from abnn_mmseg.utils.files import atomic_path, files_below

QUALITY = (cv2.IMWRITE_JPEG_QUALITY, 95)
RATES = (1., 240.)


class VideoWriter(MapWriter):
    """``video/<map>/<name>.mp4`` of the frames ``video/<map>/frames``.

    The video is made at the end, of the frames of all processes and runs, so
    a killed run loses no frame.
    """

    format, suffix = 'video', '.jpg'

    def path(self, name, score):
        """The file of one frame."""
        folder = self.folder / self.format / slug(score) / 'frames'
        return folder / f'{name}{self.suffix}'

    def encode(self, result, score):
        """A frame as JPEG."""
        if result.image is None:
            raise ValueError(f'{result.name!r} comes without its image, '
                             'which a video needs.')
        settings = self.settings
        heat = colourise(result.map(score), settings.picture_range(score),
                         settings.colormap)
        if settings.video == 'side':
            picture = np.hstack([result.image, heat])
        else:
            picture = cv2.addWeighted(heat, settings.opacity, result.image,
                                      1 - settings.opacity, 0)
        return encode_picture('.jpg', picture[..., ::-1], QUALITY)

    def clear(self, names):
        """Remove the frames, and the videos made of them."""
        super().clear(names)
        for path in (self.folder / self.format).rglob('*.mp4'):
            path.unlink()

    def close(self):
        """Make the videos, on the first process."""
        if self.settings.rank != 0:
            return
        for score in self.settings.scores:
            frames = self.path('', score).parent
            paths = list(files_below(frames)) if frames.exists() else []
            names = [self._video_of(p.relative_to(frames)) for p in paths]
            for name in dict.fromkeys(names):
                self._join(frames.parent / f'{name}.mp4', [
                    path for path, own in zip(paths, names) if own == name])

    @staticmethod
    def _video_of(frame: Path) -> str:
        """The name of a frame's video: ``drive`` for ``drive_000012.jpg``."""
        stem, _, number = frame.with_suffix('').as_posix().rpartition('_')
        return stem if stem and number.isdigit() else 'images'

    def _join(self, path: Path, frames: list[Path]) -> None:
        pictures = self._pictures(frames)
        first = next(pictures)
        height, width = (side - side % 2 for side in first.shape[:2])
        with atomic_path(path) as temporary:
            video = cv2.VideoWriter(
                str(temporary), cv2.VideoWriter.fourcc(*'mp4v'),
                self.settings.fps or _rate_of(frames), (width, height))
            if not video.isOpened():
                raise ValueError(f'OpenCV cannot write {path}; its build has '
                                 'no encoder of MPEG-4.')
            video.write(first[:height, :width])
            for picture in pictures:
                if picture.shape != first.shape:
                    picture = cv2.resize(picture, first.shape[1::-1])
                video.write(picture[:height, :width])
            video.release()

    @staticmethod
    def _pictures(frames: list[Path]) -> Iterator[np.ndarray]:
        for frame in frames:
            picture = cv2.imdecode(
                np.fromfile(frame, np.uint8), cv2.IMREAD_COLOR)
            if picture is None:
                raise ValueError(f'{frame} is damaged; remove it and export '
                                 'again with --resume.')
            yield picture


def _rate_of(frames: list[Path]) -> float:
    """The rate at which the frames of a camera were written."""
    times = sorted(frame.stat().st_mtime for frame in frames)
    seconds = times[-1] - times[0]
    rate = (len(times) - 1) / seconds if seconds > 0 else 25.
    return float(np.clip(rate, *RATES))
