"""Output of the tools: tables, progress bars, errors on one line."""
import logging
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Callable, Optional

from cv2.utils import logging as opencv
from mmengine.dist import is_main_process
from mmengine.logging import MMLogger
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

MISTAKES = (ValueError, OSError, RuntimeError, ImportError, MemoryError,
            FloatingPointError, KeyError, AssertionError, SyntaxError)
# Messages of mmengine and mmseg about their own code, in every run. Users
# cannot do anything about them.
LIBRARY_MESSAGES = ('The prefix is not set in metric class',
           '"FileClient" will be deprecated',
           '"HardDiskBackend" is the alias')
WARNINGS = ('Default ``avg_non_ignore`` is False',
            '``build_loss`` would be deprecated',
            r'`isinstance\(treespec, LeafSpec\)` is deprecated')


def hide_library_messages(logger: Optional[MMLogger] = None) -> None:
    """Hide what libraries log about their own code from the console.

    Log files keep it.

    Args:
        logger (MMLogger, optional): Defaults to the current one; then
            such warnings of Python and OpenCV are hidden, too.
    """
    # A line that cannot be logged would print a traceback.
    logging.raiseExceptions = False
    if logger is None:
        logger = MMLogger.get_current_instance()
        for text in WARNINGS:
            warnings.filterwarnings('ignore', text)
        # OpenCV warns about TIFFs of four channels, even its own ones.
        opencv.setLogLevel(opencv.LOG_LEVEL_ERROR)
    for handler in logger.handlers:
        if not isinstance(handler, logging.FileHandler):
            handler.addFilter(_is_wanted)


def _is_wanted(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(LIBRARY_MESSAGES)


def print_table(title: str,
                rows: Sequence[Mapping],
                columns: Optional[Iterable[str]] = None) -> None:
    """Print dicts as a table, on the main process.

    Numbers have two decimals, those below 1 three digits.
    """
    if not is_main_process():
        return
    columns = list(columns or dict.fromkeys(k for row in rows for k in row))
    table = Table()
    for i, column in enumerate(columns):
        table.add_column(column, justify='left' if i == 0 else 'right')
    for row in rows:
        table.add_row(*(_text(row.get(column)) for column in columns))
    console = plain_console()
    console.print(title)
    console.print(table)


def plain_console() -> Console:
    """A console that does not interpret brackets and colons."""
    # With the width of the terminal, Rich would cut off tables.
    return Console(width=10_000, markup=False, emoji=False)


def _text(value) -> str:
    if value is None or value != value:  # NaN
        return '-'
    exact = isinstance(value, Integral) or not isinstance(value, Real)
    if exact:
        return str(value)
    size = abs(value)
    if size < 0.001 and size:
        return f'{value:.1e}'
    # Losses and error rates are often small. Adding 0 turns -0.0 into 0.0.
    return f'{value:#.3g}' if 0 < size < 0.9995 else f'{value + 0:.2f}'


@contextmanager
def say_errors():
    """End a tool with the message of an error, without a traceback.

    Set ``ABNN_TRACEBACK=1`` to see the traceback.
    """
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except BaseException as error:
        if _interrupted(error):
            print('\nInterrupted; run it again to continue, with --resume '
                  'if it has that option.', file=sys.stderr)
            sys.exit(130)
        if isinstance(error, BrokenPipeError):
            # What is still to be printed would raise again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            print('\nNobody reads the output any more (a pipe like `| head` '
                  'was closed); finished files are kept.', file=sys.stderr)
            sys.exit(1)
        # This type error is a misspelt option of a config; others are bugs.
        misspelt = (isinstance(error, TypeError)
                    and 'unexpected keyword argument' in str(error))
        if not misspelt and not isinstance(error, MISTAKES):
            raise
        # mmengine reports mistakes in a config by assertions with a message.
        # An assertion without one is a bug.
        ours = isinstance(error, AssertionError) and not error.args
        if ours or os.environ.get('ABNN_TRACEBACK'):
            raise
        text = str(error)
        if isinstance(error, KeyError):
            # str() of a KeyError has quotes.
            text = error.args[0]
        elif isinstance(error, SyntaxError):
            text = f'the config is no Python: {error}'
        print(f'\n{type(error).__name__}: {text}', file=sys.stderr)
        sys.exit(1)


def _interrupted(error: Optional[BaseException]) -> bool:
    """Whether Ctrl-C caused an error.

    mmengine raises a SyntaxError if the formatting of a config is
    interrupted.
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def progress(items: Iterable, title: str = 'Working',
             total: Optional[float] = None) -> Iterator:
    """Yield items; show a progress bar on a terminal."""
    if not _watched():
        yield from items
        return
    with _bar() as bar:
        yield from bar.track(items, total=total, description=title)


def _watched() -> bool:
    """Whether this is the main process and it writes to a terminal."""
    return is_main_process() and sys.stderr.isatty()


def _bar() -> Progress:
    columns = (TextColumn('{task.description}', markup=False), BarColumn(),
               MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True))


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[[float], None]]:
    """Yield a function that sets the number of finished items of a bar.

    The number may have a fraction, for items that take a long time.
    """
    if not _watched():
        yield lambda done: None
        return
    with _bar() as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)
