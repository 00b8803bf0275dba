"""The common base of all datasets with out-of-distribution labels."""
import os.path as osp
from collections.abc import Sequence
from typing import Any, Optional, Union

import mmengine
from mmengine import fileio
from mmseg.datasets import BaseSegDataset
from mmseg.registry import DATASETS

from abnn_mmseg.datasets.pairs import (
    EXTENSIONS,
    Pairs,
    files_by_stem,
    match_pairs,
)
from abnn_mmseg.datasets.protocol import LabelProtocol
from abnn_mmseg.datasets.transforms import read_image
from abnn_mmseg.utils.choices import one_of


@DATASETS.register_module()
class AnomalySegDataset(BaseSegDataset):
    """Images with raw labels, and a protocol that says what each id means.

    Use it directly for your own data, or one of its subclasses. The pipeline
    reads the labels with ``LoadAnomalyAnnotations``.

    Images and labels are matched by stem, also in sub-folders. Both may end
    in .png, .jpg, .jpeg or .webp. A missing folder, an image without label or
    a label without image is an error when the dataset is built.

    Args:
        labels (LabelProtocol | dict): The raw-id protocol, or its arguments.
        split (str, optional): One of the class's ``SPLITS``; sets the
            folders (and the list file) below ``data_root``.
        data_prefix (dict, optional): Folders ``img_path``, ``seg_map_path``;
            overrides ``split``. Without ``seg_map_path`` the images have no
            labels.
        ann_file (str, optional): Text file with one stem per line; overrides
            ``split``. Defaults to all images of the folder.
        img_suffix (str): Text after the stem in image names, with or without
            extension. Defaults to '', any extension.
        seg_map_suffix (str): The same for label names. Defaults to ''.
        stem_pattern (str, optional): Regular expression with one group, the
            part of a stem that image and label share. Defaults to the whole
            stem.
        only_labelled (bool): Leave out images without label, for datasets
            with unpublished labels. Defaults to False: they are an error.
        metainfo (dict, optional): More meta information. The classes are
            those of the protocol.
        **kwargs: See :class:`mmseg.datasets.BaseSegDataset`.
    """

    SPLITS: dict = {}
    # The source of the data, for the message about a missing folder.
    SOURCE = 'See docs/datasets.md for the layout.'

    def __init__(self,
                 labels: Union[LabelProtocol, dict],
                 split: Optional[str] = None,
                 data_prefix: Optional[dict] = None,
                 ann_file: Optional[str] = None,
                 img_suffix: str = '',
                 seg_map_suffix: str = '',
                 stem_pattern: Optional[str] = None,
                 only_labelled: bool = False,
                 metainfo: Optional[dict] = None,
                 **kwargs) -> None:
        if isinstance(labels, dict):
            labels = LabelProtocol(**labels)
        self.labels = labels
        self._tables = labels.tables()
        self.stem_pattern = stem_pattern
        self.only_labelled = only_labelled
        folders = dict(self._split_folders(split))
        listed = folders.pop('ann_file', '')
        super().__init__(
            data_prefix=folders if data_prefix is None else data_prefix,
            ann_file=listed if ann_file is None else ann_file,
            img_suffix=img_suffix,
            seg_map_suffix=seg_map_suffix,
            metainfo=self._protocol_metainfo(metainfo or {}),
            **kwargs)

    @property
    def metainfo(self) -> dict:
        """Meta information of the dataset, with the name of the protocol.

        In the argument ``metainfo``, mmengine would take the name for a file.
        """
        return dict(super().metainfo, label_protocol=self.labels.name)

    def _split_folders(self, split: Optional[str]) -> dict:
        if split is None:
            return dict(img_path='', seg_map_path='')
        if not self.SPLITS:
            raise ValueError(f'{type(self).__name__} has no split {split!r}, '
                             'nor any other; set data_prefix instead.')
        return self.SPLITS[one_of(
            f'{type(self).__name__}: split', split, self.SPLITS)]

    def _protocol_metainfo(self, metainfo: dict) -> dict:
        classes = metainfo.get('classes', self.labels.classes)
        if tuple(classes) != tuple(self.labels.classes):
            raise ValueError(
                f'metainfo.classes={tuple(classes)!r} contradicts the label '
                f'protocol {self.labels.name!r} of {type(self).__name__}, '
                f'which has {tuple(self.labels.classes)!r}. Remove the '
                'classes from metainfo and choose the protocol instead.')
        return {
            'palette': [list(colour) for colour in self.labels.palette],
            **metainfo, 'classes': tuple(classes)
        }

    @classmethod
    def get_label_map(cls, new_classes: Optional[Sequence] = None) -> None:
        """There is no ``label_map``: the protocol maps labels."""

    def load_data_list(self) -> list[dict]:
        """List all pairs; raise ValueError for files without partner."""
        pairs = self.find_pairs()
        if pairs.problems:
            shown = '\n  '.join(pairs.problems[:5])
            more = len(pairs.problems) - 5
            raise ValueError(
                f'{type(self).__name__}: images and labels do not match in '
                f'{len(pairs.problems)} cases:\n  {shown}'
                + (f'\n  and {more} more' if more > 0 else '') +
                '\n`abnn check-dataset CONFIG` lists all of them.')
        return self.data_infos(pairs)

    def data_infos(self, pairs: Pairs) -> list[dict]:
        """One mmseg data info for each matched pair."""
        infos = []
        for image, label in pairs.matched:
            info: dict[str, Any] = dict(
                img_path=image,
                label_map=None,
                reduce_zero_label=False,
                seg_fields=[])
            if label is not None:
                info['seg_map_path'] = label
            infos.append(info)
        return infos

    def find_pairs(self) -> Pairs:
        """Match image and label files; raise only if a folder is missing."""
        images, problems = self._files('img_path', self.img_suffix)
        labels = None
        if self.data_prefix.get('seg_map_path') is not None:
            labels, more = self._files('seg_map_path', self.seg_map_suffix)
            problems = problems + more
            if self.only_labelled:
                images = {k: v for k, v in images.items() if k in labels}
        pairs = match_pairs(images, labels, self._listed_stems())
        pairs.problems = problems + pairs.problems
        return pairs

    def _files(self, key: str, suffix: str):
        folder = self.data_prefix[key]
        if not fileio.isdir(folder, backend_args=self.backend_args):
            raise FileNotFoundError(self._missing('folder', folder))
        files, problems = files_by_stem(folder, suffix, self.backend_args,
                                        self.stem_pattern)
        if not files:
            ending = f'*{suffix}' + (
                '' if suffix.lower().endswith(EXTENSIONS) else
                '{' + ','.join(EXTENSIONS) + '}')
            raise FileNotFoundError(
                self._missing(f'file {ending} in folder', folder))
        return files, problems

    def _listed_stems(self) -> Optional[list[str]]:
        if not self.ann_file:
            return None
        if not fileio.isfile(self.ann_file, backend_args=self.backend_args):
            raise FileNotFoundError(self._missing('list file', self.ann_file))
        lines = mmengine.list_from_file(
            self.ann_file, backend_args=self.backend_args)
        stems = [line.strip() for line in lines if line.strip()]
        if not stems:
            raise ValueError(f'{type(self).__name__}: the list file '
                             f'{self.ann_file} names no image.')
        return stems

    def _missing(self, what: str, path: str) -> str:
        place = osp.abspath(path)
        if self.data_root:
            relative = osp.relpath(path, self.data_root)
            place = f'{relative!r} in data_root {self.data_root!r} ({place})'
        return f'{type(self).__name__}: no {what} {place}. {self.SOURCE}'

    def get_data_info(self, idx: int) -> dict:
        """Data info of one pair, with the look-up tables of its labels."""
        info = super().get_data_info(idx)
        info['label_tables'] = self._tables
        return info

    def prepare_data(self, idx: int):
        """Run the pipeline; raise OSError for a broken image."""
        try:
            return super().prepare_data(idx)
        except Exception:
            read_image(self.get_data_info(idx)['img_path'], self.backend_args)
            raise
