"""Write maps of a folder, a video or a config's dataset to files."""
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Callable, NamedTuple, Optional

import torch
from mmengine.dist import all_reduce, get_dist_info
from mmseg.registry import DATASETS

from abnn_mmseg.export.formats import build_writers
from abnn_mmseg.export.inferencer import ABNNInferencer, Loaded, to_rgb
from abnn_mmseg.export.inputs import Frame, Frames, read_bgr
from abnn_mmseg.export.writers import ThreadedWriter
from abnn_mmseg.utils.configs import part_of
from abnn_mmseg.utils.console import progress
from abnn_mmseg.utils.files import sweep

SPLITS = ('train', 'val', 'test')


class Export(NamedTuple):
    """How many images were written, and how many were there already."""
    written: int
    skipped: int


class Item(NamedTuple):
    """An image that has a name before it is loaded."""
    name: str
    load: Callable[[], Loaded]


def export_maps(inferencer: ABNNInferencer,
                source: str,
                folder: str,
                formats: Sequence[str] = ('npy', ),
                limit: Optional[int] = None,
                batch_size: int = 1,
                probability: bool = False,
                **settings) -> Export:
    """Predict every image of a source and hand it to the writers.

    Threads read and write while the network works. Under a launcher the
    images are shared among the processes; files and numbers are those of a
    single one.

    Args:
        inferencer (ABNNInferencer): The model.
        source (str): Image, folder, glob or video; or ``'test'``, ``'val'``,
            ``'train'`` for the config's dataset, with its ground truth.
        folder (str): Output folder; every format has its own in it.
        formats (Sequence[str]): See :mod:`abnn_mmseg.export.formats`.
        limit (int, optional): Only the first images.
        batch_size (int): Images in one pass; sizes may differ.
        probability (bool): Put the mean probability into the ``npz``.
        settings: Fields of :class:`WriterSettings`. Without ``threshold``,
            those that are stored with the members are applied.
    """
    if settings.get('threshold') is None:
        settings['threshold'] = inferencer.thresholds
    rank, world = get_dist_info()
    count, items = find_items(inferencer, source)
    if limit is not None:
        count, items = min(limit, count), islice(items, limit)
    writer = ThreadedWriter(
        build_writers(
            formats, folder, inferencer.scores, classes=inferencer.classes,
            palette=inferencer.palette, rank=rank, **settings))
    if settings.get('resume') or settings.get('overwrite'):
        sweep(folder)
    done = torch.zeros(2, dtype=torch.int64)

    def jobs() -> Iterator[Callable[[], Loaded]]:
        items_of_all = progress(items, f'Export to {folder}', count)
        for item in islice(items_of_all, rank, None, world):
            if settings.get('resume') and writer.complete(item.name):
                done[1] += 1
            else:
                yield item.load

    with writer:
        for result in inferencer.results(
                jobs(), batch_size, probability):
            writer.write(result)
            done[0] += 1
        # The first process joins what all have written when it closes.
        writer.wait()
        all_reduce(done)
    return Export(*done.tolist())


def find_items(inferencer: ABNNInferencer,
               source: str) -> tuple[int, Iterator[Item]]:
    """How many images a source has, and an iterator over them."""
    if source in SPLITS and not Path(source).exists():
        return _dataset_items(inferencer, source)
    frames = Frames(source)
    return len(frames), (Item(frame.name, partial(inferencer.load, frame))
                         for frame in frames)


def _dataset_items(inferencer: ABNNInferencer,
                   split: str) -> tuple[int, Iterator[Item]]:
    dataset = DATASETS.build(
        part_of(inferencer.cfg, f'{split}_dataloader').dataset)
    folder = Path(dataset.data_prefix['img_path'])

    def item(index: int) -> Item:
        path = Path(dataset.get_data_info(index)['img_path'])
        inside = folder in path.parents
        inner = path.relative_to(folder) if inside else Path(path.name)
        name = inner.with_suffix('').as_posix()

        def load() -> Loaded:
            image = read_bgr(Frame(name, path))
            return Loaded(name, dataset[index], to_rgb(image))

        return Item(name, load)

    return len(dataset), map(item, range(len(dataset)))
