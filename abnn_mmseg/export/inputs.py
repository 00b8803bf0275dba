"""Files, folders, videos, volumes and arrays as named images."""
import glob
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Optional, Union

import cv2
import numpy as np
from mmengine.fileio import get_file_backend
from mmengine.logging import print_log

from abnn_mmseg.export.live import Camera, is_live
from abnn_mmseg.export.pixels import (
    Pixels,
    is_pixels,
    split_batches,
    to_array,
)
from abnn_mmseg.export.volumes import SUFFIX, Slice, is_volume, slices_of
from abnn_mmseg.utils.files import files_below

IMAGES = {'.png', '.jpg', '.jpeg', '.webp', '.bmp', '.tif', '.tiff'}
VIDEOS = {'.mp4', '.avi', '.mov', '.mkv', '.webm'}
Input = Union[str, Path, Pixels]


class Frame(NamedTuple):
    """The name of an image (a path without suffix), and file or pixels."""
    name: str
    image: Union[str, Path, Pixels]


class Frames:
    """Images of a file, folder, glob, video, array, tensor or PIL image.

    A list may hold any of these but videos. The images of a NIfTI volume are
    its slices.

    Names are the stems of the files, with the sub-folders of a folder. Two
    files with the same name are refused.
    """

    def __init__(self, inputs: Union[Input, Sequence[Input]]) -> None:
        self.inputs: list[Any] = split_batches(
            list(inputs) if isinstance(inputs, (list, tuple)) else [inputs])
        self.files: list[Frame] = []
        self.video: Optional[Path] = None
        self.live: Optional[Camera] = None
        for number, item in enumerate(self.inputs):
            if is_pixels(item):
                self.files.append(
                    Frame(f'image_{number:06d}', _check_array(item)))
            else:
                self._add_path(str(item))
        if not self.files and self.video is None and self.live is None:
            raise FileNotFoundError(
                f'no image in {inputs!r}; give an image, a folder, a glob or '
                f'a video. Images end in {", ".join(sorted(IMAGES))}.')
        _check_names(self.files)

    def _add_path(self, item: str) -> None:
        path = Path(item)
        if '://' in item and not is_live(item):
            self.files += _stored_images(item)
        elif is_live(item) and not path.exists():
            if len(self.inputs) > 1:
                raise ValueError(f'{item} is a camera or stream; give it '
                                 'alone.')
            self.live = Camera(item)
        elif path.is_dir():
            self.files += _images_below(path, path)
        elif path.is_file() and path.suffix.lower() in VIDEOS:
            if len(self.inputs) > 1:
                raise ValueError(f'{item} is a video; give it alone.')
            self.video = path
        elif path.is_file() and path.suffix == '.pth':
            raise ValueError(
                f'{item} is a checkpoint, not an image; give config, base '
                'checkpoint and images in this order, member files by '
                '--members.')
        elif path.is_file():
            self.files += _frames_of(path, path.name)
        else:
            found = sorted(glob.glob(item, recursive=True))
            if not found:
                raise FileNotFoundError(
                    f'{item} does not exist and matches no file; give an '
                    'image, a folder, a glob or a video.')
            self._add_matches([Path(p) for p in found])

    def _add_matches(self, found: list[Path]) -> None:
        """Add files that match a glob, and images in folders that match."""
        files = [frame for path in found if not path.is_dir()
                 for frame in _frames_of(path, path.name)]
        # '**' matches folders and their files; add each image only once.
        known = {frame.image for frame in files}
        for folder in filter(Path.is_dir, found):
            for frame in _images_below(folder, folder.parent):
                if frame.image not in known:
                    known.add(frame.image)
                    files.append(frame)
        self.files += files

    @property
    def volumes(self) -> dict[str, Path]:
        """Volumes by the name that their slices share."""
        return {frame.name.rpartition('_')[0]: frame.image.path
                for frame in self.files if isinstance(frame.image, Slice)}

    def __len__(self) -> int:
        if self.video is not None:
            capture = cv2.VideoCapture(str(self.video))
            # Negative if the file cannot be opened.
            return max(0, int(capture.get(cv2.CAP_PROP_FRAME_COUNT)))
        return len(self.files)

    def __iter__(self) -> Iterator[Frame]:
        if self.live is not None:
            yield from (Frame(*frame) for frame in self.live)
            return
        if self.video is None:
            yield from self.files
            return
        capture = cv2.VideoCapture(str(self.video))
        try:
            number = 0
            while True:
                there, image = capture.read()
                if not there:
                    break
                yield Frame(f'{self.video.stem}_{number:06d}', image)
                number += 1
        finally:
            capture.release()
        expected = len(self)
        if 0 < number < expected:
            print_log(
                f'{self.video} promises {expected} frames, but only {number} '
                'can be decoded: it is truncated, or its frame number '
                f'{number} is broken.', 'current', logging.WARNING)
        if not number:
            raise ValueError(
                f'{self.video} holds no frame that OpenCV can decode; if it '
                'is whole, convert it, e.g. to H.264.')


def _images_below(folder: Path, root: Path) -> list[Frame]:
    """All images of a folder, named by their paths below ``root``."""
    return [
        frame for path in files_below(folder)
        if path.suffix.lower() in IMAGES or is_volume(path)
        for frame in _frames_of(path, path.relative_to(root).as_posix())
    ]


def _frames_of(path: Path, name: str) -> list[Frame]:
    """An image, or all slices of a volume."""
    if is_volume(path):
        return [Frame(f'{SUFFIX.sub("", name)}_{part.number:06d}', part)
                for part in slices_of(path)]
    return [Frame(PurePosixPath(name).with_suffix('').as_posix(), path)]


def _stored_images(address: str) -> list[Frame]:
    """An image, or all in a folder, of one of MMEngine's file backends."""
    backend = get_file_backend(address)
    if Path(address).suffix.lower() in IMAGES:
        if not backend.exists(address):
            raise FileNotFoundError(f'{address} does not exist.')
        return [Frame(Path(address).stem, address)]
    if not backend.isdir(address):
        raise FileNotFoundError(
            f'{address} is not a folder of {type(backend).__name__}; give an '
            'image or a folder.')
    return [
        Frame(str(PurePosixPath(name).with_suffix('')),
              backend.join_path(address, name))
        for name in sorted(backend.list_dir_or_file(
            address, list_dir=False, recursive=True))
        if PurePosixPath(name).suffix.lower() in IMAGES]


def fps_of(source: Union[str, Path]) -> Optional[float]:
    """Frames per second of a video; 25 for images; None for a camera."""
    if is_live(str(source)) and not Path(source).exists():
        return None
    rate = 0.
    if Path(source).suffix.lower() in VIDEOS:
        capture = cv2.VideoCapture(str(source))
        rate = capture.get(cv2.CAP_PROP_FPS)
        capture.release()
    return rate if 0 < rate <= 1000 else 25.


def read_bgr(frame: Frame) -> np.ndarray:
    """The pixels, 8-bit BGR; raise ValueError if they cannot be decoded."""
    if not isinstance(frame.image, (str, Path)):
        return to_array(frame.image, 3)
    data = np.fromfile(frame.image, np.uint8)
    image = None
    # OpenCV raises for some files, such as those with an enormous size.
    with suppress(cv2.error):
        if data.size:
            image = cv2.imdecode(data, cv2.IMREAD_COLOR)
    if image is None:
        raise ValueError(f'{frame.image} cannot be decoded; it is empty, '
                         'truncated or not an image.')
    return image


def _check_array(image: Pixels) -> Pixels:
    if isinstance(image, np.ndarray) and (
            image.ndim != 3 or image.dtype.kind not in 'uif'
            or not image.size):
        raise ValueError(
            f'the array is {image.dtype} {list(image.shape)}; give [H, W, C], '
            'such as uint8 [H, W, 3] in BGR order, as cv2.imread returns it.')
    return image


def _check_names(files: list[Frame]) -> None:
    seen: dict = {}
    for frame in files:
        if frame.name in seen:
            raise ValueError(
                f'{seen[frame.name]} and {frame.image} would share the '
                f'output name {frame.name!r}; rename one or export their '
                'folders one by one.')
        seen[frame.name] = frame.image
