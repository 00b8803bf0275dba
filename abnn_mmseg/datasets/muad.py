"""MUAD: synthetic driving scenes with unknown objects, two protocols."""
from mmseg.datasets import CityscapesDataset
from mmseg.registry import DATASETS

from abnn_mmseg.datasets.anomaly import AnomalySegDataset
from abnn_mmseg.datasets.protocol import LabelProtocol
from abnn_mmseg.utils.choices import one_of

CLASSES = CityscapesDataset.METAINFO['classes']
PALETTE = CityscapesDataset.METAINFO['palette']
# Raw ids 0-18 are Cityscapes train ids; 19 animals, 20 bags, stands, bins.
VOID_IDS = (21, 255)


def _muad_15() -> LabelProtocol:
    ids = (*range(12), 13, 14, 15)
    return LabelProtocol(
        name='MUAD, 15 classes',
        classes=tuple(CLASSES[i] for i in ids),
        ids=ids,
        palette=[PALETTE[i] for i in ids],
        ood=(12, 16, 17, 18, 19, 20),
        void=VOID_IDS)


def _muad_19() -> LabelProtocol:
    # The model has all 19 outputs, but train, motorcycle and bicycle are
    # OOD: they never occur as ground truth, in training either.
    return LabelProtocol(
        name='MUAD, 19 classes',
        classes=CLASSES,
        ids=(*range(16), (), (), ()),
        palette=PALETTE,
        ood=(16, 17, 18, 19, 20),
        void=VOID_IDS)


PROTOCOLS = {'15': _muad_15(), '19': _muad_19()}


@DATASETS.register_module()
class MUADDataset(AnomalySegDataset):
    """MUAD (Franchi et al., BMVC 2022), also MUAD-sketch in its layout.

    Args:
        split (str, optional): 'train', 'val', 'test_id', 'test_ood', or one
            of the adverse-weather splits ``test_{id,ood}_{low,high}_adv``.
        protocol (str): '15': rider, train, motorcycle, bicycle, animals and
            objects are OOD (TorchUncertainty). '19': rider is a class;
            labels above 18 are clipped to 18, and 16-18 are OOD (the
            challenge's development kit). Defaults to '15'.
        **kwargs: See :class:`AnomalySegDataset`.
    """

    METAINFO = dict(
        classes=PROTOCOLS['15'].classes, palette=PROTOCOLS['15'].palette)
    SPLITS = {
        split: dict(
            img_path=f'{split}/leftImg8bit', seg_map_path=f'{split}/leftLabel')
        for split in ('train', 'val', 'test_id', 'test_ood', 'test_id_low_adv',
                      'test_id_high_adv', 'test_ood_low_adv',
                      'test_ood_high_adv')
    }
    SOURCE = (
        'MUAD is the Hugging Face dataset ENSTA-U2IS/MUAD, one zip per split; '
        'unzip the splits into data_root. Without it, draw the small '
        'MUAD-sketch with\n'
        '  abnn make-muad-sketch data/muad_sketch\n'
        'and use a muad_sketch config. Layouts: docs/datasets.md.')

    def __init__(self,
                 split=None,
                 protocol='15',
                 img_suffix='_leftImg8bit',
                 seg_map_suffix='_leftLabel',
                 **kwargs) -> None:
        protocol = one_of('MUADDataset: protocol', str(protocol), PROTOCOLS)
        super().__init__(
            PROTOCOLS[protocol],
            split=split,
            img_suffix=img_suffix,
            seg_map_suffix=seg_map_suffix,
            **kwargs)
