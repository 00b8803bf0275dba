"""Write in threads while the network predicts the next image."""
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import BoundedSemaphore
from typing import Callable, Optional

from abnn_mmseg.export.result import MapResult
from abnn_mmseg.export.writers.base import Writer
from abnn_mmseg.utils.threads import background_pool


class ThreadedWriter:
    """Runs writers in a few threads.

    Encoding and file access release Python's lock, so they run during
    inference. At most ``queue`` results wait; then :meth:`write` blocks, so
    that results cannot fill the memory if the disk is slow. The next call
    raises the first error of a thread.

    Args:
        writers: See :func:`build_writers`.
        workers: Number of threads.
        queue: Number of results that may wait.
        guard: Makes the context in which each image, and at the end the
            files of the whole set, are written. Defaults to none.
    """

    def __init__(
            self, writers: Sequence[Writer], workers: int = 2, queue: int = 8,
            guard: Callable[[], AbstractContextManager] = nullcontext) -> None:
        self.writers = list(writers)
        self._guard = guard
        self._slots = BoundedSemaphore(workers + queue)
        self._pool = background_pool(workers, 'map-writer')
        self._error: Optional[Exception] = None

    def write(self, result: MapResult) -> None:
        """Queue one result; raise the error of an earlier one."""
        self._raise_error()
        self._slots.acquire()
        self._pool.submit(self._work, result)

    def _work(self, result):
        try:
            if self._error is None:
                with self._guard():
                    for writer in self.writers:
                        writer.write(result)
        except Exception as error:
            self._error = self._error or error
        finally:
            self._slots.release()

    def _raise_error(self):
        if self._error is not None:
            raise self._error

    def wait(self) -> None:
        """Wait until all results are written; raise the error of a thread."""
        self._pool.shutdown(wait=True)
        self._raise_error()

    def close(self) -> None:
        """Wait for the threads, raise their errors, close the writers."""
        self.wait()
        with self._guard():
            for writer in self.writers:
                writer.close()

    def __enter__(self) -> 'ThreadedWriter':
        return self

    def __exit__(self, kind, error, trace) -> None:
        if error is None:
            self.close()
        else:
            # Queued results are still written before the error is raised.
            self._pool.shutdown(wait=True)
