"""Run jobs in background threads."""
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, TypeVar

T = TypeVar('T')


def background_pool(workers: int, name: str) -> ThreadPoolExecutor:
    """A thread pool of low priority, so that the network runs first."""
    return ThreadPoolExecutor(workers, name, initializer=_step_back)


def _step_back() -> None:
    # Only on Linux threads have priorities. Otherwise a thread that encodes a
    # picture would slow down a layer, which waits for its slowest thread.
    if sys.platform == 'linux':
        thread = threading.get_native_id()
        # A higher priority than that of the process is refused.
        own = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, max(own, 10))


def run_ahead(jobs: Iterable[Callable[[], T]], depth: int = 4,
              workers: int = 2) -> Iterator[T]:
    """Yield the results of jobs in order, computed ahead by threads.

    The error of a job is raised in the place of its result.

    Args:
        jobs: Functions; an iterator is not read further than needed.
        depth: Most results that wait.
        workers: Number of threads.
    """
    pool = background_pool(workers, 'run-ahead')
    waiting: deque = deque()
    try:
        for job in jobs:
            waiting.append(pool.submit(job))
            if len(waiting) > depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
