"""Test sets whose masks only mark anomalous pixels."""
from collections.abc import Sequence
from typing import Optional

from mmseg.datasets import CityscapesDataset
from mmseg.registry import DATASETS

from abnn_mmseg.datasets.anomaly import AnomalySegDataset
from abnn_mmseg.datasets.protocol import LabelProtocol


@DATASETS.register_module()
class BinaryAnomalyDataset(AnomalySegDataset):
    """Anomaly masks for a model that predicts its own classes.

    For RoadAnomaly, Fishyscapes, SegmentMeIfYouCan and your own masks. There
    are no class labels, so ``gt_seg_map`` is 255 everywhere, and only anomaly
    metrics can be computed.

    Args:
        anomaly_values (Sequence[int]): Mask values of anomalies; (2, ) for
            RoadAnomaly. Defaults to (1, ).
        void_values (Sequence[int]): Mask values that are never evaluated.
            Defaults to (255, ).
        normal_values (Sequence[int]): Mask values of all other pixels. Any
            other value is an error. Defaults to (0, ).
        metainfo (dict, optional): ``classes`` and ``palette`` of the model.
            Defaults to those of Cityscapes.
        **kwargs: See :class:`AnomalySegDataset`.
    """

    METAINFO = CityscapesDataset.METAINFO
    SOURCE = ('Set data_root and data_prefix to the folders of images and '
              'masks. Where to get them: docs/datasets.md.')

    def __init__(self,
                 anomaly_values: Sequence[int] = (1, ),
                 void_values: Sequence[int] = (255, ),
                 normal_values: Sequence[int] = (0, ),
                 metainfo: Optional[dict] = None,
                 **kwargs) -> None:
        meta = dict(metainfo or self.METAINFO)
        classes = tuple(meta.get('classes', self.METAINFO['classes']))
        # mmseg chooses colours for classes without any.
        meta.setdefault('palette', [])
        labels = LabelProtocol(
            name='binary anomaly mask',
            classes=classes,
            ids=[()] * len(classes),
            # Not used: the palette of metainfo wins.
            palette=[(0, 0, 0)] * len(classes),
            ood=anomaly_values,
            void=void_values,
            in_distribution=normal_values)
        super().__init__(labels, metainfo=meta, **kwargs)
