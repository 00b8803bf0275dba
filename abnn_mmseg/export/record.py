"""The record of an output folder: its model and the finished images."""
import json
import logging
import os
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Optional

from mmengine.dist import barrier
from mmengine.logging import print_log

from abnn_mmseg.export.formats import build_writers
from abnn_mmseg.export.writers import Writer, WriterSettings
from abnn_mmseg.export.writers.settings import slug
from abnn_mmseg.utils.files import (
    append_line,
    atomic_write,
    behind,
    digest_of,
    read_lines,
    sweep,
)

# Settings that files depend on. The page is always written again.
SETTINGS = ('scores', 'classes', 'palette', 'scale', 'threshold', 'dtype',
            'colormap', 'opacity', 'method', 'dataset', 'max_side')
# On record if they are not the default, so that folders of versions without
# them can be resumed.
LATER = ('min_area', 'keep', 'guarantees', 'video')
Stamp = Optional[list]


class Record:
    """Knows which images are done, and keeps a folder to one model.

    ``export.json`` holds the fingerprint of the model and the settings of
    the files. An image is one line in ``export.rank<N>.jsonl``, appended
    when all its files are written: its name, the size, times and digest of
    its input, and the formats. A folder of HDF5 files alone may hold several
    methods and datasets, as the benchmark wants it; each has a record of its
    own.

    Args:
        settings (WriterSettings): Of the files to write.
        formats (Sequence[str]): Names of their formats.
        model (str): Fingerprint of the model.
        tiles (bool): Whether images are predicted tile by tile.
        probability (bool): Whether archives hold the probability.

    Raises:
        FileExistsError: If the folder was written otherwise.
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
        # Through JSON, like what is read: no tuples, no NumPy numbers.
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
        lines = read_lines(self._journals()) if self._resumes else []
        self._done = _stamps_in(lines)
        self._behind = behind(lines)
        self._stamps: dict[str, Stamp] = {}
        self._lock = Lock()

    def open_writers(self) -> list[Writer]:
        """Write the record of this model and make the writers.

        With ``overwrite``, the files of an earlier run go, all of them.
        """
        settings = dict(vars(self.settings))
        # Without a record, the model of existing files is unknown.
        settings['resume'] = self._resumes
        writers = build_writers(
            self.formats, settings.pop('folder'), settings.pop('scores'),
            self._content['tiles'], **settings)
        self._start()
        return [OwnerWriter(self), *writers, RecordWriter(self)]

    def _start(self) -> None:
        # All processes must have read the folder before one changes it.
        barrier()
        if self.settings.rank == 0:
            if self.settings.overwrite:
                self._clear()
            if self._stored is None or self.settings.overwrite:
                atomic_write(self._path, json.dumps(self._content, indent=2))
        sweep(self.folder)
        barrier()

    def is_done(self, name: str, files: Sequence[Path]) -> bool:
        """Whether all formats of an image were written from these files.

        Call it before an image is loaded: the files are stamped here, so an
        image that changes later is not taken for done.
        """
        known = self._done.get(name, {})
        stamp = stamp_of(files, next(iter(known.values()), None))
        self._stamps[name] = stamp
        return self._resumes and all(
            form in known and _digests(known[form]) == _digests(stamp)
            for form in self.formats)

    def check(self) -> None:
        """Raise FileExistsError if another run has taken the folder."""
        if self._read() != self._content:
            raise FileExistsError(
                f'another run has replaced the files in {str(self.folder)!r} '
                'meanwhile; choose a folder for each.')

    def note(self, name: str) -> None:
        """Note that all files of an image are written."""
        line = json.dumps(dict(
            image=name, input=self._stamps.pop(name, None),
            formats=self.formats, time=time.time() + self._behind))
        with self._lock:
            append_line(self._journal, line)

    def note_shard(self, shard: str, images: str) -> None:
        """Note that a shard is done; warn if others had another list.

        Each takes every n-th image of the list, so an image may be in none
        of them if the list or n changes in between.

        Args:
            shard (str): Such as ``'1/2'``.
            images (str): A digest of the names of the images of all shards.
        """
        append_line(self._journal, json.dumps(dict(
            shard=shard, images=images, time=time.time() + self._behind)))
        known = {line['shard']: line['images']
                 for line in read_lines(self._journals()) if 'shard' in line}
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

    def _read(self) -> Optional[dict]:
        try:
            content = json.loads(self._path.read_text(encoding='utf-8'))
            if not isinstance(content, dict) or 'settings' not in content:
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

    @property
    def _journal(self) -> Path:
        return self.folder / f'{self._name}.rank{self.settings.part}.jsonl'

    def _journals(self) -> list[Path]:
        return sorted(self.folder.glob(f'{self._name}.rank*.jsonl'))

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
        done = _stamps_in(read_lines(self._journals()))
        if self._stored is not None:
            formats = {form for known in done.values() for form in known}
            old = dict(self._stored['settings'], resume=True)
            scores = old.pop('scores')
            for form in sorted(formats):
                [writer] = build_writers(
                    [form], self.folder, scores, self._stored['tiles'],
                    **old)
                writer.clear([name for name in done if form in done[name]])
        for journal in self._journals():
            journal.unlink()


class OwnerWriter(Writer):
    """Runs before all other writers: the folder must still be this run's."""

    def __init__(self, record: Record) -> None:
        super().__init__(record.settings)
        self.record = record

    def paths(self, name):
        """No files: the record is one for all images."""
        return []

    def write(self, result):
        """Stop a run whose folder another one has taken."""
        self.record.check()


class RecordWriter(OwnerWriter):
    """Runs after all other writers and notes that an image is done."""

    def write(self, result):
        """Note that the files of an image are written."""
        self.record.note(result.name)


def _stamps_in(lines: Sequence[dict]) -> dict[str, dict[str, Stamp]]:
    """The input of every image, by name and format."""
    done: dict[str, dict[str, Stamp]] = {}
    for line in lines:
        for form in line.get('formats', ()):
            done.setdefault(line['image'], {})[form] = line['input']
    return done


def stamp_of(paths: Sequence[Path], known: Stamp = None) -> Stamp:
    """Size, times and digest of files; None if one is no ordinary file.

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
    """Of a file; that of a video is wanted for each of its frames."""
    return digest_of(path)


def _digests(stamp: Stamp) -> Optional[list]:
    return stamp and [entry[3:] for entry in stamp]


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, 'tolist') else str(value)
