"""Write files atomically; journals; temporary files."""
import hashlib
import json
import os
import re
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Union
from uuid import uuid4
from zlib import crc32

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Longest name of a file, in bytes.
LONGEST = 255
# Short, and without the dashes that a host's name may have.
HOST = f'{crc32(socket.gethostname().encode()):08x}'
# How the name of a temporary file begins, on any host.
TEMPORARY = re.compile(r'\.[0-9a-f]{8}-\d+-[0-9a-f]{4}\.tmp-')


@contextmanager
def atomic_path(path: Union[str, Path]) -> Iterator[Path]:
    """Yield a temporary path that becomes ``path`` if the body succeeds.

    The temporary file lies in the same folder (made if missing), so that the
    last step is one rename: a reader, or a run that was killed, never sees
    half a file. It ends like ``path``, for savers that look at the suffix.

    Args:
        path: The final file. An existing one is replaced.

    Raises:
        OSError: What the system said, in a sentence that names the folder.
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

    Links to folders are followed, except those to a folder that they lie in.
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
    """Raise FileExistsError if a result would replace a file unasked."""
    if not overwrite and Path(path).exists():
        raise FileExistsError(
            f'{path} exists and would be replaced; name another file for '
            'the result, or add --overwrite.')


def atomic_write(path: Union[str, Path], data: Union[bytes, str]) -> None:
    """Write bytes, or text as UTF-8, to ``path`` atomically."""
    if isinstance(data, str):
        # Names of files need not be UTF-8.
        data = data.encode('utf-8', 'surrogateescape')
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def sweep(folder: Union[str, Path]) -> None:
    """Remove temporary files that killed processes of this host left."""
    for path in Path(folder).rglob(f'.{HOST}-*.tmp-*'):
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


def digest_of(path: Union[str, Path]) -> str:
    """A digest of the content of a file."""
    sha = hashlib.sha256()
    with open(path, 'rb') as file:
        while part := file.read(2**20):
            sha.update(part)
    return sha.hexdigest()


def append_line(path: Union[str, Path], line: str) -> None:
    """Append one line to a journal.

    A killed run may have left half a line, so a line break is written first,
    too. Readers skip empty and broken lines.
    """
    path = Path(path)
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, 'a', encoding='utf-8') as file:
            file.write(f'\n{line}\n')


def read_lines(journals: Iterable[Path]) -> list[dict]:
    """The JSON lines of journals, the latest last by their ``time``."""
    lines = []
    for journal in journals:
        for line in journal.read_text(encoding='utf-8').splitlines():
            # A killed run may have left half a line.
            with suppress(ValueError):
                lines.append(json.loads(line))
    lines = [line for line in lines if isinstance(line, dict)]
    return sorted(lines, key=lambda line: line.get('time', 0))


def behind(lines: Sequence[dict]) -> float:
    """Seconds to add to the time of a new line, to come after all others.

    Usually none, but clocks may have been set back since.
    """
    last = lines[-1].get('time', 0.) if lines else 0.
    return max(0., last - time.time() + 1e-3)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep a folder for this process; refuse one that another process has.

    The system forgets the claim when the process ends, however it does.
    """
    path = folder / '.claim'
    with _explained(path):
        folder.mkdir(parents=True, exist_ok=True)
        path.touch()
    with open(path, 'a', encoding='utf-8') as file:
        try:
            if fcntl is not None:
                # Unlike flock's, such locks are not those of forked workers.
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
def _explained(path: Path) -> Iterator[None]:
    """Name the file and its folder in the message of an OSError."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.strerror is None:
            # An inner call has explained it.
            raise
        reason = error.strerror or str(error)
        explained = type(error)(
            f'Cannot write {path.name!r} in folder {str(path.parent)!r}: '
            f'{reason}.')
        explained.errno = error.errno
        raise explained from error
