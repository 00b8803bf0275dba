"""BDD-Anomaly: BDD100K with rare vehicles moved to the test set."""
from collections.abc import Sequence
from typing import Optional

from mmseg.datasets import CityscapesDataset
from mmseg.registry import DATASETS

from abnn_mmseg.datasets.anomaly import AnomalySegDataset
from abnn_mmseg.datasets.protocol import LabelProtocol, hold_out

HELD_OUT = ('train', 'motorcycle')
FOLDERS = dict(img_path='images', seg_map_path='labels')


def bdd_protocol(held_out: Sequence[str] = HELD_OUT) -> LabelProtocol:
    """Raw ids are Cityscapes train ids; 255 is void."""
    meta = CityscapesDataset.METAINFO
    return hold_out('BDD-Anomaly', meta['classes'], meta['palette'], held_out,
                    (255, ))


def split_folder(held_out: Sequence[str] = HELD_OUT) -> str:
    """Folder of the list files below ``data_root``."""
    return 'anomaly_split_' + '_'.join(held_out).replace(' ', '_')


@DATASETS.register_module()
class BDDAnomalyDataset(AnomalySegDataset):
    """BDD-Anomaly (Hendrycks et al., ICML 2022), 17 classes.

    Reads the 10K segmentation part of BDD100K through the list files that
    ``abnn make-bdd-anomaly`` writes.

    Args:
        split (str, optional): 'train', 'val' or 'test'.
        held_out (Sequence[str]): OOD classes. The list files must be made
            for the same classes. Defaults to ('train', 'motorcycle').
        data_prefix (dict, optional): Defaults to ``images`` and ``labels``.
        ann_file (str, optional): Defaults to the list file of the split.
        seg_map_suffix (str): Defaults to '_train_id'. Write '' for releases
            whose labels are named like images.
        **kwargs: See :class:`AnomalySegDataset`.
    """

    SPLITS = dict.fromkeys(('train', 'val', 'test'), FOLDERS)
    SOURCE = (
        'Register for BDD100K, get the 10K images and their segmentation '
        'labels, put them as images/ and labels/ into data_root, and write '
        'the lists with\n'
        '  abnn make-bdd-anomaly DATA_ROOT\n'
        'Layout: docs/datasets.md.')

    def __init__(self,
                 split: Optional[str] = None,
                 held_out: Sequence[str] = HELD_OUT,
                 seg_map_suffix: str = '_train_id',
                 **kwargs) -> None:
        self._lists = split_folder(held_out)
        super().__init__(
            bdd_protocol(held_out),
            split=split,
            seg_map_suffix=seg_map_suffix,
            **kwargs)

    def _split_folders(self, split: Optional[str]) -> dict:
        if split is None:
            return FOLDERS
        return dict(
            super()._split_folders(split),
            ann_file=f'{self._lists}/{split}.txt')
