"""The record of an output folder: its model and the finished images."""
import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple, Optional

from mmengine.dist import barrier
from mmengine.logging import print_log

from abnn_mmseg.export.formats import build_writers
from abnn_mmseg.export.writers import Writer, WriterSettings
from abnn_mmseg.export.writers.settings import slug
from abnn_mmseg.utils.files import (
    Journal,
    atomic_write,
    digest_of,
    sweep,
    turn,
)

# Settings that files depend on; the page is always written again.
SETTINGS = ('scores', 'classes', 'palette', 'scale', 'threshold', 'dtype',
            'colormap', 'opacity', 'method', 'dataset', 'max_side')
# Stored only if they are not the default, so that folders of versions without
# them can be resumed.
LATER = ('min_area', 'keep', 'guarantees', 'video')
Stamp = Optional[list]


class Done(NamedTuple):
    """The input of a finished image, and the sizes of its files."""
    input: Stamp
    sizes: Optional[list]


class Record:
    """Knows which images are finished, and refuses another model.

    ``export.json`` holds the fingerprint of the model and the settings of
    the files. An image is two lines in ``export.rank<N>.jsonl``: its name and
    formats, before its files are written, and after them its name, the size,
    times and digest of its input, and the sizes of the files. A folder with
    only HDF5 files may hold several methods and datasets, as in the
    benchmark; each has a record of its own.

    Args:
        settings (WriterSettings): Settings of the files.
        formats (Sequence[str]): Names of their formats.
        model (str): Fingerprint of the model.
        tiles (bool): Whether images are predicted tile by tile.
        probability (bool): Whether archives hold the probability.

    Raises:
        FileExistsError: If the folder has files of another model or settings.
    """

    def __init__(self, settings: WriterSettings, formats: Sequence[str],
                 model: str, tiles: bool, probability: bool) -> None:
        self.settings = settings
        self.formats = list(dict.fromkeys(formats))
        self.folder = Path(settings.folder)
        self._name = 'export'
        if self.formats == ['hdf5']:
            self._name += f'-{slug(settings.method)}-{slug(settings.dataset)}'
        self._path = self.folder / f'{self._name}.json'
        chosen = {name: getattr(settings, name) for name in SETTINGS}
        chosen.update({
            name: getattr(settings, name) for name in LATER
            if getattr(settings, name) != getattr(WriterSettings, name)})
        # The stored content has been through JSON, without tuples and NumPy.
        self._content = json.loads(json.dumps(
            dict(model=model, tiles=tiles, probability=probability,
                 settings=chosen), default=_plain))
        self._stored = self._read()
        if self._stored not in (None, self._content) and (
                not settings.overwrite):
            raise FileExistsError(
                f'{str(self.folder)!r} holds files of another model or other '
                f'settings ({self._differences()}); add --overwrite to '
                'replace them, or choose another folder.')
        self._resumes = settings.resume and self._stored is not None
        self._journal = Journal(
            self.folder, self._name, settings.part, self._resumes)
        self._done = _done_in(self._journal.lines)
        self._stamps: dict[str, Stamp] = {}
        self._writers: dict[str, Writer] = {}

    def open_writers(self) -> list[Writer]:
        """Write the record of this model and make the writers.

        With ``overwrite``, all files of earlier runs are removed.
        """
        settings = dict(vars(self.settings))
        # Without a record, the model of existing files is unknown.
        settings['resume'] = self._resumes
        writers = build_writers(
            self.formats, settings.pop('folder'), settings.pop('scores'),
            self._content['tiles'], **settings)
        self._writers = dict(zip(self.formats, writers))
        self._start()
        return [StartWriter(self), *writers, RecordWriter(self)]

    def _start(self) -> None:
        # All processes must have read the folder before one changes it.
        barrier()
        if self.settings.rank == 0:
            if self.settings.overwrite:
                self.folder.mkdir(parents=True, exist_ok=True)
                with turn(self.folder, alone=True):
                    self._clear()
                    self._write()
            elif self._stored is None:
                self._write()
        sweep(self.folder)
        barrier()

    def is_done(self, name: str, files: Sequence[Path]) -> bool:
        """Whether all formats of an image were written from these files.

        The written files must still have their sizes. Call this before the
        image is loaded: its files are stamped here, so an image that changes
        later does not count as done.
        """
        known = self._done.get(name, {})
        stamp = stamp_of(files, next((k.input for k in known.values()), None))
        self._stamps[name] = stamp
        return self._resumes and all(
            form in known and _digests(known[form].input) == _digests(stamp)
            and writer.complete(name, known[form].sizes)
            for form, writer in self._writers.items())

    @contextmanager
    def owned(self) -> Iterator[None]:
        """No other run takes the folder during the body.

        Raises:
            FileExistsError: If one has taken it before.
        """
        with turn(self.folder):
            self.check()
            yield

    def check(self) -> None:
        """Raise FileExistsError if another run has taken the folder."""
        if self._read() != self._content:
            raise FileExistsError(
                f'another run has replaced the files in {str(self.folder)!r} '
                'meanwhile; choose a folder for each.')

    def begin(self, name: str) -> None:
        """Note that files of an image are about to be written.

        A later run with ``overwrite`` finds them, even if this one is killed
        between two of them.
        """
        self._journal.append(begun=name, into=self.formats)

    def note(self, name: str) -> None:
        """Note that all files of an image are written."""
        self._journal.append(
            image=name, input=self._stamps.pop(name, None),
            formats=self.formats, sizes=[
                writer.sizes(name) for writer in self._writers.values()])

    def note_shard(self, shard: str, images: str) -> None:
        """Note that a shard is done; warn if others had another list.

        Each takes every n-th image of the list, so images may be missing if
        the list or n changes in between.

        Args:
            shard (str): Such as ``'1/2'``.
            images (str): A digest of the names of the images of all shards.
        """
        self._journal.append(shard=shard, images=images)
        known = {line['shard']: line['images']
                 for line in self._journal.read() if 'shard' in line}
        count = shard.partition('/')[2]
        others = sorted(
            other for other, list_ in known.items()
            if list_ != images or other.partition('/')[2] != count)
        if others:
            print_log(
                f'{self.folder} has shards of another list of images, or of '
                f'another number of shards ({", ".join(others)}), so images '
                f'may be missing; run all shards of {count} again, which '
                'keeps what is done.', 'current', logging.WARNING)

    def _write(self) -> None:
        atomic_write(self._path, json.dumps(self._content, indent=2))

    def _read(self) -> Optional[dict]:
        try:
            content = json.loads(self._path.read_text(encoding='utf-8'))
            if not isinstance(content, dict) or not isinstance(
                    content.get('settings'), dict):
                raise ValueError('no settings are in it')
            return content
        except FileNotFoundError:
            return None
        except NotADirectoryError as error:
            raise NotADirectoryError(
                f'{self.folder} is a file; name a folder for the maps.'
            ) from error
        except ValueError as error:
            raise ValueError(f'{self._path} is damaged ({error}); remove it '
                             'to export to another folder.') from error

    def _differences(self) -> str:
        """The names of the settings that changed."""
        assert self._stored is not None
        old, new = ({**content, **content.get('settings', {})}
                    for content in (self._stored, self._content))
        names = sorted(name for name in {*old, *new} - {'settings'}
                       if old.get(name) != new.get(name))
        return ', '.join(names)

    def _clear(self) -> None:
        """Remove all files that earlier runs wrote, and their lines."""
        written = _written_in(self._journal.read())
        if self._stored is not None:
            old = dict(self._stored['settings'], resume=True)
            scores = old.pop('scores')
            for form, names in sorted(written.items()):
                [writer] = build_writers(
                    [form], self.folder, scores, self._stored['tiles'],
                    **old)
                writer.clear(names)
        for path in self._journal.paths():
            path.unlink()


class StartWriter(Writer):
    """Runs before all other writers; notes an image before it has files."""

    def __init__(self, record: Record) -> None:
        super().__init__(record.settings)
        self.record = record

    def paths(self, name):
        """No files: the record is one for all images."""
        return []

    def write(self, result):
        """Note that files of an image may exist from now on."""
        self.record.begin(result.name)


class RecordWriter(StartWriter):
    """Runs after all other writers and notes that an image is finished."""

    def write(self, result):
        """Note that the files of an image are written."""
        self.record.note(result.name)


def _done_in(lines: Sequence[dict]) -> dict[str, dict[str, Done]]:
    """Finished images, by name and format."""
    done: dict[str, dict[str, Done]] = {}
    for line in lines:
        # Folders of versions without sizes can be resumed.
        for form, sizes in zip(line.get('formats', ()),
                               line.get('sizes') or repeat(None)):
            done.setdefault(line['image'], {})[form] = Done(
                line['input'], sizes)
    return done


def _written_in(lines: Sequence[dict]) -> dict[str, list[str]]:
    """Images with files, finished or not, by format."""
    written: dict[str, dict[str, None]] = {}
    for line in lines:
        # Folders of earlier versions do not say what was begun.
        for form in line.get('into', line.get('formats', ())):
            name = line['begun'] if 'begun' in line else line['image']
            written.setdefault(form, {})[name] = None
    return {form: list(names) for form, names in written.items()}


def stamp_of(paths: Sequence[Path], known: Stamp = None) -> Stamp:
    """Size, times and digest of files; None if one is not a file.

    Args:
        paths (Sequence[Path]): The files.
        known (list, optional): An earlier stamp of them: a file whose size
            and times are the same is not read again.
    """
    stamp = []
    for number, path in enumerate(paths):
        try:
            stat = os.stat(path)
            seen = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
            old = known[number] if known and number < len(known) else []
            stamp.append(old if old[:3] == seen else [
                *seen, _digest(str(path), *seen)])
        except OSError:
            return None
    return stamp


@lru_cache(maxsize=8)
def _digest(path: str, *seen: int) -> str:
    """The digest of a file, cached because frames share their video."""
    return digest_of(path)


def _digests(stamp: Stamp) -> Optional[list]:
    return stamp and [entry[3:] for entry in stamp]


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, 'tolist') else str(value)
