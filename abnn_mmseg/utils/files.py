"""Write files atomically; journals; temporary files."""
import hashlib
import json
import os
import re
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from pathlib import Path
from threading import Lock
from typing import Any, Optional, Union
from uuid import uuid4
from zlib import crc32

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Longest name of a file, in bytes.
LONGEST = 255
# A short name of this host, without dashes.
HOST = f'{crc32(socket.gethostname().encode()):08x}'
# The start of the name of a temporary file, of any host.
TEMPORARY = re.compile(r'\.[0-9a-f]{8}-\d+-[0-9a-f]{4}\.tmp-')


@contextmanager
def atomic_path(path: Union[str, Path]) -> Iterator[Path]:
    """Yield a temporary path that becomes ``path`` if the body succeeds.

    The temporary file is in the same folder, which is created if missing, so
    the last step is one rename: nobody ever sees half a file. It has the same
    suffix, which some savers depend on.

    Args:
        path: The final file. An existing one is replaced.

    Raises:
        OSError: The reason of the system, in a sentence with the folder.
    """
    path = Path(path)
    temporary = path.with_name(_temporary_name(path.name))
    try:
        with _explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            with open(temporary, 'rb+') as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _temporary_name(name: str) -> str:
    prefix = f'.{HOST}-{os.getpid()}-{uuid4().hex[:4]}.tmp-'
    while len(os.fsencode(prefix + name)) > LONGEST:
        name = name[1:]
    return prefix + name


def files_below(folder: Union[str, Path]) -> Iterator[Path]:
    """Yield all files of a folder and its sub-folders, sorted by path.

    Links to folders are followed, except a link to a folder that contains it.
    Temporary files, which other processes may be writing, are left out.
    """
    yield from sorted(_walk(Path(folder), ()))


def _walk(folder: Path, above: tuple[str, ...]) -> Iterator[Path]:
    real = os.path.realpath(folder)
    if real in above:
        return
    for entry in os.scandir(folder):
        try:
            is_folder, is_file = entry.is_dir(), entry.is_file()
        except OSError:
            # A link to itself is neither.
            continue
        if is_folder:
            yield from _walk(folder / entry.name, (*above, real))
        elif is_file and not TEMPORARY.match(entry.name):
            yield folder / entry.name


def check_free(path: Union[str, Path], overwrite: bool = False) -> None:
    """Raise FileExistsError if a file exists and must not be replaced."""
    if not overwrite and Path(path).exists():
        raise FileExistsError(
            f'{path} exists and would be replaced; name another file for '
            'the result, or add --overwrite.')


def atomic_write(path: Union[str, Path], data: Union[bytes, str]) -> None:
    """Write bytes, or text as UTF-8, to ``path`` atomically."""
    if isinstance(data, str):
        # File names need not be valid UTF-8.
        data = data.encode('utf-8', 'surrogateescape')
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def sweep(place: Union[str, Path]) -> None:
    """Remove temporary files that killed processes of this host left.

    Args:
        place (str): A folder, of which all sub-folders are looked at, or
            the file that was being written.
    """
    place = Path(place)
    found = place.rglob(f'.{HOST}-*.tmp-*') if place.is_dir() else (
        place.parent.glob(f'.{HOST}-*.tmp-{escape(place.name)}'))
    for path in found:
        owner = path.name.split('-')[1]
        if owner.isdigit() and not _is_alive(int(owner)):
            with suppress(OSError):
                path.unlink()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def size_of(path: Union[str, Path]) -> Optional[int]:
    """The bytes of a file; None if there is none."""
    try:
        return os.stat(path).st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def digest_of(path: Union[str, Path]) -> str:
    """A digest of the content of a file."""
    sha = hashlib.sha256()
    with open(path, 'rb') as file:
        while part := file.read(2**20):
            sha.update(part)
    return sha.hexdigest()


def append_line(path: Union[str, Path], line: str) -> None:
    """Append one line to a journal.

    It starts with a line break, because a killed run may have left half a
    line. Readers skip empty and broken lines.
    """
    path = Path(path)
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, 'a', encoding='utf-8') as file:
            file.write(f'\n{line}\n')


def read_lines(journals: Iterable[Path]) -> list[dict]:
    """The JSON lines of journals, sorted by their ``time``."""
    lines = []
    for journal in journals:
        text = journal.read_text(encoding='utf-8', errors='replace')
        for line in text.splitlines():
            # A killed run, or a bad disk, may have left a broken line.
            with suppress(ValueError):
                lines.append(json.loads(line))
    lines = [line for line in lines if isinstance(line, dict)
             and isinstance(line.get('time', 0), (int, float))]
    return sorted(lines, key=lambda line: line.get('time', 0))


class Journal:
    """JSON lines of all processes in a folder, a file for each process.

    Each line has the ``time`` when it was written.

    Args:
        folder (Path): Folder of the files ``<name>.rank<N>.jsonl``.
        name (str): Start of the file names.
        part (int): N, the number of this process.
        resume (bool): Continue from earlier lines. Defaults to True.

    Attributes:
        lines (list[dict]): Earlier lines of all processes, sorted by time.
    """

    def __init__(self, folder: Path, name: str, part: Optional[int],
                 resume: bool = True) -> None:
        self.folder, self.name = folder, name
        self.path = folder / f'{name}.rank{part}.jsonl'
        self.lines = self.read() if resume else []
        last = self.lines[-1].get('time', 0.) if self.lines else 0.
        # New lines must come last, even if the clock was set back.
        self._delay = max(0., last - time.time() + 1e-3)
        self._lock = Lock()

    def paths(self) -> list[Path]:
        """The files of all processes."""
        return sorted(self.folder.glob(f'{self.name}.rank*.jsonl'))

    def read(self) -> list[dict]:
        """The lines of all processes, sorted by time."""
        return read_lines(self.paths())

    def append(self, **entry: Any) -> None:
        """Append a line to the file of this process."""
        entry['time'] = time.time() + self._delay
        with self._lock:
            append_line(self.path, json.dumps(entry))


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Reserve a folder for this process; raise if another one has it.

    The reservation ends with the process, even if it is killed.
    """
    path = folder / '.claim'
    with _explained(path):
        folder.mkdir(parents=True, exist_ok=True)
        path.touch()
    with open(path, 'a', encoding='utf-8') as file:
        try:
            if fcntl is not None:
                # Unlike those of flock, these are not inherited by workers.
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise FileExistsError(
                f'another process is writing to {folder}; wait for it, or '
                'choose another --work-dir.') from error
        except OSError:
            # Not every file system has locks.
            pass
        yield


@contextmanager
def turn(folder: Path, alone: bool = False) -> Iterator[None]:
    """Wait for a turn to change a folder, which ends with the body.

    Processes and threads have turns side by side, unless one of them is
    ``alone``. Without such locks, as on some file systems, nobody waits.
    """
    with ExitStack() as stack:
        # Windows, which has no fcntl, cannot open folders either.
        if fcntl is not None:
            with suppress(OSError):
                file = os.open(folder, os.O_RDONLY)
                stack.callback(os.close, file)
                # Unlike those of lockf, these are not shared by threads.
                fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Name the file and its folder in the message of an OSError."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.strerror is None:
            # An inner call has explained it already.
            raise
        reason = error.strerror or str(error)
        explained = type(error)(
            f'Cannot write {path.name!r} in folder {str(path.parent)!r}: '
            f'{reason}.')
        explained.errno = error.errno
        raise explained from error
