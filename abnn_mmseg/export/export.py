"""Write maps of a folder, a video or a config's dataset to files."""
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional, Union

import torch
from mmengine.dist import all_reduce, get_dist_info

from abnn_mmseg.export.fingerprint import model_fingerprint
from abnn_mmseg.export.inferencer import ABNNInferencer
from abnn_mmseg.export.inputs import fps_of
from abnn_mmseg.export.items import Item, find_items, volumes_of
from abnn_mmseg.export.pipeline import Loaded
from abnn_mmseg.export.record import Record
from abnn_mmseg.export.result import MapResult
from abnn_mmseg.export.scales import with_scales
from abnn_mmseg.export.tiling import TiledInferencer
from abnn_mmseg.export.writers import ThreadedWriter, WriterSettings
from abnn_mmseg.utils.console import progress_bar

# Formats in colours; the number of images on which scales are measured.
PICTURES, MEASURED = {'heatmap', 'overlay', 'video'}, 4


class Export(NamedTuple):
    """Number of images written, and of images that were complete before."""
    written: int
    skipped: int


def export_maps(inferencer: ABNNInferencer,
                source: Union[str, Path],
                folder: Union[str, Path],
                formats: Sequence[str] = ('npy', ),
                limit: Optional[int] = None,
                batch_size: int = 1,
                probability: bool = False,
                tile: Optional[int] = None,
                shard: Optional[str] = None,
                **settings) -> Export:
    """Predict all images of a source and write the results.

    Threads read and write while the network works. Under a launcher the
    images are shared among the processes; files and numbers are those of a
    single one.

    Args:
        inferencer (ABNNInferencer): The model.
        source (str): Image, folder, glob, volume or video; or ``'test'``,
            ``'val'``, ``'train'`` for the config's dataset, with its ground
            truth.
        folder (str): Output folder, with a folder for every format. It holds
            files of one model with one choice of settings, see
            :class:`Record`.
        formats (Sequence[str]): See :mod:`abnn_mmseg.export.formats`.
        limit (int, optional): Only the first images.
        batch_size (int): Images in one pass, which may differ in size, or
            tiles. Defaults to 1.
        probability (bool): Put the mean probability into the ``npz``.
        tile (int, optional): For large images: height and width of the tiles
            that are predicted one after the other. Then ``npy`` is written
            tile by tile and includes the prediction; other formats have every
            n-th pixel, at most 2048 per side. See :class:`TiledInferencer`.
        shard (str, optional): ``'3/16'`` for the third of 16 parts of the
            images, exported by separate jobs without a launcher, in any
            order, into the same folder. Implies ``resume``.
        settings: Fields of :class:`WriterSettings`. The default of
            ``threshold`` is stored with the members.
    """
    _check(formats, probability, limit, shard, settings)
    if 'nifti' in formats:
        settings['volumes'] = volumes_of(source, tile)
    if tile is not None:
        inferencer = TiledInferencer(inferencer, tile)
    count, items = find_items(inferencer, source, folder)
    _fill_in(settings, inferencer, source, shard)
    rank, world = get_dist_info()
    part, parts = shard_of(shard, rank, world)
    record = Record(
        WriterSettings(
            folder, inferencer.scores, classes=inferencer.classes,
            palette=inferencer.palette, rank=rank, part=part,
            **settings),
        formats, model=model_fingerprint(inferencer), tiles=tile is not None,
        probability=probability)
    run = _Run(inferencer, record, count, items, limit)
    return run.export(part, parts, batch_size, probability, shard)


class _Run:
    """The export of the images of a source.

    Args:
        inferencer (ABNNInferencer): The model.
        record (Record): The record of the output folder.
        count (int, optional): Number of images; None for a camera.
        items (Iterator[Item]): The images.
        limit (int, optional): Only the first images.
    """

    def __init__(self, inferencer: ABNNInferencer, record: Record,
                 count: Optional[int], items: Iterator[Item],
                 limit: Optional[int]) -> None:
        self.inferencer = inferencer
        self.record = record
        self.is_live = count is None
        if limit is not None:
            limit = min(limit, sys.maxsize)
            count, items = min(limit, count or limit), islice(items, limit)
        self.count = count or 0
        self.names = hashlib.sha256()
        self.items = _with_digest(items, self.names)
        self.written = self.skipped = 0

    def export(self, part: int, parts: int, batch_size: int,
               probability: bool, shard: Optional[str]) -> Export:
        """Predict and write the images of this process.

        Args:
            part (int): Number of this process among those of all shards.
            parts (int): Number of these processes.
            batch_size (int): Images, or tiles, in one pass.
            probability (bool): Put the mean probability into the ``npz``.
            shard (str, optional): This shard, such as ``'3/16'``.
        """
        settings = self.record.settings
        writers = self.record.open_writers()
        bar = progress_bar(f'Export to {settings.folder}',
                           len(range(part, self.count, parts)))
        guarded = ThreadedWriter(writers, guard=self.record.owned)
        with guarded as writer, bar as self._bar:
            if isinstance(self.inferencer, TiledInferencer):
                self.inferencer.write_to(
                    writers, self._show, self.record.check)
            results = self.inferencer.results(
                self._unfinished(part, parts), batch_size, probability,
                ahead=0 if self.is_live else None)
            if not PICTURES.isdisjoint(self.record.formats):
                is_tiled = isinstance(self.inferencer, TiledInferencer)
                results = with_scales(
                    results, settings, 1 if is_tiled else MEASURED)
            self._write(results, writer)
            # All must have written before the first process joins the results.
            writer.wait()
            if shard is not None:
                self.record.note_shard(
                    f'{part + 1}/{parts}', self.names.hexdigest()[:16])
            done = torch.tensor([self.written, self.skipped])
            all_reduce(done)
        return Export(*done.tolist())

    def _unfinished(self, part: int,
                    parts: int) -> Iterator[Callable[[], Loaded]]:
        """Yield the loading functions of images that are not done yet."""
        for item in islice(self.items, part, None, parts):
            if self.record.is_done(item.name, item.files):
                self.skipped += 1
                self._show(0)
            else:
                yield item.load

    def _write(self, results: Iterator[MapResult],
               writer: ThreadedWriter) -> None:
        try:
            for result in results:
                writer.write(result)
                self.written += 1
                self._show(0)
        except KeyboardInterrupt:
            # This is how a camera is stopped.
            if not self.is_live:
                raise

    def _show(self, share: float) -> None:
        """Move the bar to the finished images and a share of the next."""
        self._bar(self.written + self.skipped + share)


def _check(formats: Sequence[str], probability: bool, limit: Optional[int],
           shard: Optional[str], settings: dict) -> None:
    """Raise ValueError for settings that contradict each other."""
    if shard is not None and settings.get('overwrite'):
        raise ValueError('--overwrite would remove the files of other '
                         'shards; remove the folder instead.')
    if probability and 'npz' not in formats:
        raise ValueError("probability is written to the 'npz' only; add that "
                         f'to the formats {list(formats)}, or leave it out.')
    if not formats:
        raise ValueError('formats is empty, so nothing would be written; '
                         "name some, such as formats=['npy'].")
    if limit is not None and limit < 1:
        raise ValueError(f'limit={limit} leaves no image; write at least 1, '
                         'or None for all.')


def _fill_in(settings: dict, inferencer: ABNNInferencer,
             source: Union[str, Path], shard: Optional[str]) -> None:
    """Fill in settings that depend on other arguments and the members."""
    if shard is not None:
        settings['resume'] = True
    if settings.get('fps') is None:
        settings['fps'] = fps_of(source)
    if settings.get('threshold') is None:
        settings['threshold'] = inferencer.thresholds
    settings['guarantees'] = {
        g.risk: dict(threshold=g.threshold, promise=g.sentence())
        for g in inferencer.guarantees} or None


def _with_digest(items: Iterator[Item], digest: Any) -> Iterator[Item]:
    """Yield the items; update a digest with the name of each."""
    for item in items:
        digest.update(os.fsencode(item.name) + b'\0')
        yield item


def shard_of(shard: Optional[str], rank: int,
             world: int) -> tuple[int, int]:
    """Number of this process, and of all processes of all shards."""
    if shard is None:
        return rank, world
    number, _, count = str(shard).partition('/')
    if not (number.isdigit() and count.isdigit()
            and 1 <= int(number) <= int(count)):
        raise ValueError(f'shard={shard!r} is not NUMBER/COUNT; write '
                         '3/16 for the third of 16.')
    return (int(number) - 1) * world + rank, int(count) * world
