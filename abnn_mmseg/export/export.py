"""Write maps of a folder, a video or a config's dataset to files."""
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional, Union

import torch
from mmengine.dist import all_reduce, get_dist_info
from mmseg.registry import DATASETS

from abnn_mmseg.export.fingerprint import model_fingerprint
from abnn_mmseg.export.formats import FORMATS
from abnn_mmseg.export.inferencer import ABNNInferencer, unwrapped
from abnn_mmseg.export.inputs import Frames, fps_of
from abnn_mmseg.export.pipeline import Loaded, Pipeline
from abnn_mmseg.export.record import Record
from abnn_mmseg.export.scales import with_scales
from abnn_mmseg.export.tiling import TiledInferencer
from abnn_mmseg.export.writers import ThreadedWriter, WriterSettings
from abnn_mmseg.utils.configs import part_of
from abnn_mmseg.utils.console import progress_bar

SPLITS = ('train', 'val', 'test')
# Formats in colours, and on how many images their scales are measured.
PICTURES, MEASURED = {'heatmap', 'overlay'}, 4


class Export(NamedTuple):
    """Number of images written, and of those that were finished before."""
    written: int
    skipped: int


class Item(NamedTuple):
    """An image of a source before it is loaded: its name and files."""
    name: str
    load: Callable[[], Loaded]
    files: Sequence[Path]


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
        folder (str): Output folder; every format has its own in it. It is
            that of one model and one choice of settings, see
            :class:`Record`.
        formats (Sequence[str]): See :mod:`abnn_mmseg.export.formats`.
        limit (int, optional): Only the first images.
        batch_size (int): Images in one pass, which may differ in size; with
            ``tile``, tiles.
        probability (bool): Put the mean probability into the ``npz``.
        tile (int, optional): For large images: height and width of the tiles
            that are predicted one after the other. Then ``npy`` is written
            tile by tile and has the prediction, too; other formats get every
            n-th pixel, at most 2048 a side. See :class:`TiledInferencer`.
        shard (str, optional): ``'3/16'`` for the third of 16 parts of the
            images, each exported by a job of its own without a launcher, in
            any order, into the same folder. Implies ``resume``.
        settings: Fields of :class:`WriterSettings`. Without ``threshold``,
            those that are stored with the members are applied.
    """
    _check(formats, probability, limit)
    if 'nifti' in formats:
        settings['volumes'] = _volumes(source, tile)
    if tile is not None:
        inferencer = TiledInferencer(inferencer, tile)
    count, items = find_items(inferencer, source, folder)
    live = count is None
    if limit is not None:
        limit = min(limit, sys.maxsize)
        count, items = min(limit, count or limit), islice(items, limit)
    count = count or 0
    _complete(settings, inferencer, source)
    rank, world = get_dist_info()
    part, parts = shard_of(shard, rank, world)
    if shard is not None:
        if settings.get('overwrite'):
            raise ValueError('--overwrite would remove the files of other '
                             'shards; remove the folder instead.')
        settings['resume'] = True
    record = Record(
        WriterSettings(
            folder, inferencer.scores, classes=inferencer.classes,
            palette=inferencer.palette, rank=rank, part=part,
            **settings),
        formats, model=model_fingerprint(inferencer), tiles=tile is not None,
        probability=probability)
    writers = record.open_writers()
    listed = hashlib.sha256()
    items = _listing(items, listed)
    done = torch.zeros(2, dtype=torch.int64)
    bar = progress_bar(f'Export to {folder}', len(range(part, count, parts)))
    with ThreadedWriter(writers) as writer, bar as show:

        def jobs() -> Iterator[Callable[[], Loaded]]:
            """Yield the loading functions of images that are not done yet."""
            for item in islice(items, part, None, parts):
                if record.is_done(item.name, item.files) and (
                        writer.complete(item.name)):
                    done[1] += 1
                    show(int(done.sum()))
                else:
                    yield item.load

        if isinstance(inferencer, TiledInferencer):
            inferencer.write_to(
                writers, lambda part: show(int(done.sum()) + part))
        results = inferencer.results(
            jobs(), batch_size, probability, 0 if live else None)
        if not PICTURES.isdisjoint(formats):
            results = with_scales(
                results, record.settings, MEASURED if tile is None else 1)
        try:
            for result in results:
                writer.write(result)
                done[0] += 1
                show(int(done.sum()))
        except KeyboardInterrupt:
            # Nothing else ends a camera.
            if not live:
                raise
        # The first process joins what all have written when it closes.
        writer.wait()
        if shard is not None:
            record.note_shard(f'{part + 1}/{parts}', listed.hexdigest()[:16])
        all_reduce(done)
    return Export(*done.tolist())


def _check(formats: Sequence[str], probability: bool,
           limit: Optional[int]) -> None:
    """Refuse what would write nothing."""
    if probability and 'npz' not in formats:
        raise ValueError("probability is written to the 'npz' only; add that "
                         f'to the formats {list(formats)}, or leave it out.')
    if not formats:
        raise ValueError('formats is empty, so nothing would be written; '
                         "name some, such as formats=['npy'].")
    if limit is not None and limit < 1:
        raise ValueError(f'limit={limit} leaves no image; write at least 1, '
                         'or None for all.')


def _complete(settings: dict, inferencer: ABNNInferencer,
              source: Union[str, Path]) -> None:
    """Fill in what the source and the members know of the settings."""
    if settings.get('fps') is None:
        settings['fps'] = fps_of(source)
    if settings.get('threshold') is None:
        settings['threshold'] = inferencer.thresholds
    settings['guarantees'] = {
        g.risk: dict(threshold=g.threshold, promise=g.sentence())
        for g in inferencer.guarantees} or None


def _listing(items: Iterator[Item], digest: Any) -> Iterator[Item]:
    """The items; their names go into a digest as they pass."""
    for item in items:
        digest.update(os.fsencode(item.name) + b'\0')
        yield item


def _volumes(source: Union[str, Path],
             tile: Optional[int]) -> dict[str, Path]:
    """The volumes that the format ``nifti`` is made of."""
    if tile is not None:
        raise ValueError("The format 'nifti' has whole slices; leave out "
                         '--tile.')
    found = {} if source in SPLITS else Frames(source).volumes
    if not found:
        raise ValueError(f"The format 'nifti' needs volumes, but {source} "
                         'has none; give .nii or .nii.gz files.')
    return found


def shard_of(shard: Optional[str], rank: int,
             world: int) -> tuple[int, int]:
    """The number of this process among those of all shards, from 0 on."""
    if shard is None:
        return rank, world
    number, _, count = str(shard).partition('/')
    if not (number.isdigit() and count.isdigit()
            and 1 <= int(number) <= int(count)):
        raise ValueError(f'shard={shard!r} is not one of the parts; write '
                         '3/16 for the third of 16.')
    return (int(number) - 1) * world + rank, int(count) * world


def find_items(inferencer: ABNNInferencer, source: Union[str, Path],
               folder: Union[None, str, Path] = None
               ) -> tuple[Optional[int], Iterator[Item]]:
    """The number of images of a source, and an iterator over them.

    Nobody knows the number of a camera: None.

    Where the output ``folder`` lies in a folder of images, the maps in it are
    no inputs.
    """
    if source in SPLITS and not Path(source).exists():
        return _dataset_items(inferencer, str(source))
    frames = Frames(source)
    if folder is not None and isinstance(source, (str, Path)) and (
            Path(source).is_dir()):
        maps = _folders_of_maps(Path(source), Path(folder))
        frames.files = [
            frame for frame in frames.files
            if not _real(str(frame.image)).startswith(maps)]
    return len(frames), (
        Item(frame.name, partial(inferencer.load, frame),
             [frames.video or Path(str(frame.image))]) for frame in frames)


def _folders_of_maps(source: Path, folder: Path) -> tuple[str, ...]:
    """How the paths of maps begin that lie in a folder of images."""
    source, folder = (Path(os.path.realpath(p)) for p in (source, folder))
    if source == folder:
        return tuple(str(folder / form) + os.sep for form in FORMATS)
    return (str(folder) + os.sep, ) if source in folder.parents else ()


def _real(path: str) -> str:
    """A file's path, without links to folders."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def _dataset_items(inferencer: ABNNInferencer,
                   split: str) -> tuple[int, Iterator[Item]]:
    cfg = unwrapped(part_of(inferencer.cfg, f'{split}_dataloader').dataset)
    dataset = DATASETS.build(cfg)
    pipeline = inferencer.pipeline
    if split != 'train':
        # The training pipeline crops and flips at random.
        pipeline = Pipeline(cfg.pipeline, pipeline.channels, pipeline.side)
    folder = Path(dataset.data_prefix['img_path'])

    def item(index: int) -> Item:
        """The image and label of the dataset at this index."""
        info = dataset.get_data_info(index)
        path = Path(info['img_path'])
        inside = folder in path.parents
        inner = path.relative_to(folder) if inside else Path(path.name)
        name = inner.with_suffix('').as_posix()
        labels = info.get('seg_map_path')
        return Item(name, partial(pipeline.load_labelled, name, info),
                    [path] if labels is None else [path, Path(labels)])

    return len(dataset), map(item, range(len(dataset)))
