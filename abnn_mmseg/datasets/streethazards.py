"""StreetHazards: simulated streets with objects never seen in training."""
from mmseg.registry import DATASETS

from abnn_mmseg.datasets.anomaly import AnomalySegDataset
from abnn_mmseg.datasets.protocol import LabelProtocol

# Raw ids start at 1. 'unlabeled' is a class of the benchmark (sky and other
# background); 0 does not occur in the published files and is void.
PROTOCOL = LabelProtocol(
    name='StreetHazards',
    classes=('unlabeled', 'building', 'fence', 'other', 'pedestrian', 'pole',
             'road line', 'road', 'sidewalk', 'vegetation', 'car', 'wall',
             'traffic sign'),
    ids=tuple(range(1, 14)),
    palette=[[70, 130, 180], [70, 70, 70], [190, 153, 153], [250, 170, 160],
             [220, 20, 60], [153, 153, 153], [157, 234, 50], [128, 64, 128],
             [244, 35, 232], [107, 142, 35], [0, 0, 142], [102, 102, 156],
             [220, 220, 0]],
    ood=(14, ),
    void=(0, ))


@DATASETS.register_module()
class StreetHazardsDataset(AnomalySegDataset):
    """StreetHazards (Hendrycks et al., ICML 2022), 13 classes.

    Args:
        split (str, optional): 'train', 'val' or 'test'.
        **kwargs: See :class:`AnomalySegDataset`.
    """

    METAINFO = dict(classes=PROTOCOL.classes, palette=PROTOCOL.palette)
    SPLITS = {
        split: dict(
            img_path=f'{archive}/images/{folder}',
            seg_map_path=f'{archive}/annotations/{folder}')
        for split, archive, folder in (('train', 'train', 'training'),
                                       ('val', 'train', 'validation'),
                                       ('test', 'test', 'test'))
    }
    SOURCE = (
        'StreetHazards comes as two archives, streethazards_train.tar and '
        'streethazards_test.tar, linked from the repository '
        'hendrycks/anomaly-seg; extract both into data_root. Layout: '
        'docs/datasets.md.')

    def __init__(self, split=None, **kwargs) -> None:
        super().__init__(PROTOCOL, split=split, **kwargs)
