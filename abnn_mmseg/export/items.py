"""The images of a source as items that are loaded later."""
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Callable, NamedTuple, Optional, Union

from mmseg.registry import DATASETS

from abnn_mmseg.export.formats import FORMATS
from abnn_mmseg.export.inferencer import ABNNInferencer, unwrapped
from abnn_mmseg.export.inputs import Frames
from abnn_mmseg.export.pipeline import Loaded, Pipeline
from abnn_mmseg.utils.configs import part_of

SPLITS = ('train', 'val', 'test')


class Item(NamedTuple):
    """An image that is not loaded yet: its name, loader and files."""
    name: str
    load: Callable[[], Loaded]
    files: Sequence[Path]


def find_items(inferencer: ABNNInferencer, source: Union[str, Path],
               folder: Union[None, str, Path] = None
               ) -> tuple[Optional[int], Iterator[Item]]:
    """The number of images of a source, and an iterator over them.

    The number is None for a camera. If the output ``folder`` lies in a folder
    of images, the maps in it are not used as inputs.
    """
    if source in SPLITS and not Path(source).exists():
        return _dataset_items(inferencer, str(source))
    frames = Frames(source)
    if folder is not None and isinstance(source, (str, Path)) and (
            Path(source).is_dir()):
        maps = _folders_of_maps(Path(source), Path(folder))
        if maps:
            frames.files = [
                frame for frame in frames.files
                if not _real(str(frame.image)).startswith(maps)]
    return None if frames.live else len(frames), (
        Item(frame.name, partial(inferencer.load, frame),
             [frames.video or Path(str(frame.image))]) for frame in frames)


def _folders_of_maps(source: Path, folder: Path) -> tuple[str, ...]:
    """Prefixes of the paths of maps inside a folder of images."""
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


def volumes_of(source: Union[str, Path],
               tile: Optional[int]) -> dict[str, Path]:
    """The volumes for the format ``nifti``."""
    if tile is not None:
        raise ValueError("The format 'nifti' has whole slices; leave out "
                         '--tile.')
    found = {} if source in SPLITS else Frames(source).volumes
    if not found:
        raise ValueError(f"The format 'nifti' needs volumes, but {source} "
                         'has none; give .nii or .nii.gz files.')
    return found
