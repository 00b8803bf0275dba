"""Cameras and streams, of which only the newest frame is used."""
import logging
import re
import time
from collections.abc import Iterator
from threading import Condition, Thread
from typing import Optional

import cv2
import numpy as np
from mmengine.logging import print_log

STREAMS = ('rtsp://', 'rtmp://', 'http://', 'https://', 'udp://')
# Seconds between two reports of the rate.
PAUSE = 5.


def is_live(item: str) -> bool:
    """Whether a source is the index of a camera, or a stream."""
    return item.isdigit() or item.lower().startswith(STREAMS)


class Camera:
    """Frames of a camera or a stream, as fast as they are predicted.

    A thread reads all frames and keeps the newest. Frames that arrive while
    the network works are dropped, not queued. The rate is logged every few
    seconds.

    Args:
        source (str): A camera's index or the address of a stream.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        name = re.sub(r'\W+', '-', source).strip('-')
        self.name = f'camera-{name}' if source.isdigit() else name
        self.read = self.given = 0
        self._newest: Optional[np.ndarray] = None
        self._ended = self._stopped = False
        self._changed = Condition()

    @property
    def dropped(self) -> int:
        """Number of frames that were read and not used."""
        return self.read - self.given

    def __iter__(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield name and pixels of the newest frame until the stream ends."""
        capture = cv2.VideoCapture(
            int(self.source) if self.source.isdigit() else self.source)
        if not capture.isOpened():
            raise FileNotFoundError(
                f'{self.source} cannot be opened; check that the camera or '
                'stream is there and not in use.')
        began = time.strftime('%Y%m%dT%H%M%S')
        thread = Thread(target=self._read_all, args=(capture, ), daemon=True)
        thread.start()
        start = reported = time.monotonic()
        try:
            while (image := self._take()) is not None:
                # Names contain the time, so that no run replaces files.
                yield f'{self.name}_{began}_{self.given - 1:06d}', image
                if time.monotonic() - reported > PAUSE:
                    reported = time.monotonic()
                    self._report(reported - start)
        finally:
            self._stopped = True
            thread.join(timeout=5)
        self._report(time.monotonic() - start, 'has ended: ')

    def _read_all(self, capture: cv2.VideoCapture) -> None:
        try:
            while not self._stopped:
                there, image = capture.read()
                with self._changed:
                    self._ended = not there
                    if there:
                        self.read += 1
                        self._newest = image
                    self._changed.notify()
                if not there:
                    break
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify()
            capture.release()

    def _take(self) -> Optional[np.ndarray]:
        with self._changed:
            self._changed.wait_for(
                lambda: self._newest is not None or self._ended)
            image, self._newest = self._newest, None
            self.given += image is not None
            return image

    def _report(self, seconds: float, event: str = '') -> None:
        print_log(
            f'{self.source} {event}{self.given} frames, '
            f'{self.given / max(seconds, 1e-9):.1f} a second, {self.dropped} '
            'dropped', 'current', logging.INFO)
