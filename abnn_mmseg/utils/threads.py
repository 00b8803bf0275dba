"""Work that threads do while the caller is busy with something else."""
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, TypeVar

T = TypeVar('T')


def run_ahead(jobs: Iterable[Callable[[], T]], depth: int = 4,
              workers: int = 2) -> Iterator[T]:
    """Yield what jobs return, in their order, some made before asked for.

    An error of a job is raised where its result would have been.

    Args:
        jobs: Functions; an iterator is not read further than needed.
        depth: Results that may wait.
        workers: Number of threads.
    """
    pool = ThreadPoolExecutor(workers, 'run-ahead')
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
