"""Write maps of a folder, a video or a config's dataset to files."""
from functools import partial
from pathlib import Path
from typing import Callable, NamedTuple, Optional, Sequence

from mmengine.dist import barrier, get_dist_info
from mmseg.registry import DATASETS

from ..utils.console import progress
from ..utils.files import sweep
from .formats import build_writers
from .inferencer import ABNNInferencer, to_result
from .inputs import Frame, Frames, read_bgr
from .result import MapResult
from .writers import ThreadedWriter

SPLITS = ('train', 'val', 'test')


class Export(NamedTuple):
    """How many images were written, and how many were there already."""
    written: int
    skipped: int


class Item(NamedTuple):
    """An image that has a name before it has a prediction."""
    name: str
    predict: Callable[[], MapResult]


def export_maps(inferencer: ABNNInferencer,
                source: str,
                folder: str,
                formats: Sequence[str] = ('npy', ),
                limit: Optional[int] = None,
                **settings) -> Export:
    """Predict every image of a source and hand it to the writers.

    Under a launcher the images are shared among the processes; the files are
    those of a single one.

    Args:
        inferencer (ABNNInferencer): The model.
        source (str): Image, folder, glob or video; or ``'test'``, ``'val'``,
            ``'train'`` for the config's dataset, with its ground truth.
        folder (str): Output folder; every format has its own in it.
        formats (Sequence[str]): See :mod:`abnn_mmseg.apis.formats`.
        limit (int, optional): Only the first images.
        settings: Fields of :class:`WriterSettings`.
    """
    rank, world = get_dist_info()
    count, items = find_items(inferencer, source)
    count = count if limit is None else min(limit, count)
    writer = ThreadedWriter(
        build_writers(
            formats, folder, inferencer.scores, classes=inferencer.classes,
            palette=inferencer.palette, rank=rank, **settings))
    if settings.get('resume') or settings.get('overwrite'):
        sweep(folder)
    written = skipped = 0
    with writer:
        for number, item in enumerate(
                progress(items, f'Export to {folder}', count)):
            if number == count:
                break
            if number % world != rank:
                continue
            if settings.get('resume') and writer.complete(item.name):
                skipped += 1
                continue
            writer.write(item.predict())
            written += 1
        # The first process joins what all have written, so it closes last.
        if rank == 0:
            writer.wait()
            barrier()
    if rank != 0:
        barrier()
    return Export(written, skipped)


def find_items(inferencer: ABNNInferencer, source: str):
    """How many images a source has, and an iterator over them."""
    if source in SPLITS and not Path(source).exists():
        return _dataset_items(inferencer, source)
    frames = Frames(source)
    return len(frames), (Item(frame.name, partial(inferencer.one, frame))
                         for frame in frames)


def _dataset_items(inferencer: ABNNInferencer, split: str):
    dataset = DATASETS.build(
        inferencer.cfg.get(f'{split}_dataloader').dataset)
    folder = Path(dataset.data_prefix['img_path'])

    def item(index: int) -> Item:
        path = Path(dataset.get_data_info(index)['img_path'])
        inside = folder in path.parents
        name = path.relative_to(folder) if inside else Path(path.name)

        def predict() -> MapResult:
            [sample] = inferencer.predict([dataset[index]])
            image = read_bgr(Frame(str(name), path))
            return to_result(name.with_suffix('').as_posix(), sample, image)

        return Item(name.with_suffix('').as_posix(), predict)

    return len(dataset), map(item, range(len(dataset)))
