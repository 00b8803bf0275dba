"""Claims about raw-id protocols."""
import pytest

from abnn_mmseg.datasets.camvid import CLASSES
from abnn_mmseg.datasets.camvid import PALETTE as CAMVID_PALETTE
from abnn_mmseg.datasets.muad import PROTOCOLS
from abnn_mmseg.datasets.protocol import UNKNOWN, LabelProtocol, hold_out


def meaning(protocol, raw):
    """(train id, anomaly label) of one raw id."""
    return tuple(protocol.tables()[:, raw].tolist())


def test_muad_15_renumbers_vehicles_and_makes_rider_ood():
    protocol = PROTOCOLS['15']
    assert len(protocol.classes) == 15
    assert [meaning(protocol, raw) for raw in (11, 13, 14, 15)] == [
        (11, 0), (12, 0), (13, 0), (14, 0)]
    assert all(meaning(protocol, raw) == (255, 1)
               for raw in (12, 16, 17, 18, 19, 20))
    assert meaning(protocol, 21) == meaning(protocol, 255) == (255, 255)


def test_muad_19_keeps_rider_and_clips_objects_into_ood():
    protocol = PROTOCOLS['19']
    assert len(protocol.classes) == 19
    assert meaning(protocol, 12) == (12, 0)
    assert meaning(protocol, 15) == (15, 0)
    assert all(meaning(protocol, raw) == (255, 1) for raw in range(16, 21))
    assert meaning(protocol, 21) == meaning(protocol, 255) == (255, 255)


def test_held_out_classes_are_ood_and_the_rest_renumbered_in_order():
    protocol = hold_out('CamVid', CLASSES, CAMVID_PALETTE, ['Road', 'Sky'],
                        (11, ))
    assert protocol.classes[:3] == ('Building', 'Pole', 'Pavement')
    assert protocol.palette[0] == CAMVID_PALETTE[1]
    assert meaning(protocol, 0) == meaning(protocol, 3) == (255, 1)
    assert meaning(protocol, 4) == (2, 0)
    assert meaning(protocol, 11) == (255, 255)


def test_ids_nobody_described_have_no_meaning():
    assert meaning(PROTOCOLS['15'], 22)[1] == UNKNOWN


def test_a_misspelt_held_out_class_is_named_with_the_choices():
    with pytest.raises(ValueError, match='pedestrian is not.*Pedestrian'):
        hold_out('CamVid', CLASSES, CAMVID_PALETTE, ['pedestrian'], (11, ))
    with pytest.raises(ValueError, match='leaves no class'):
        hold_out('CamVid', CLASSES, CAMVID_PALETTE, CLASSES, (11, ))


def test_two_meanings_of_one_id_are_refused():
    with pytest.raises(ValueError, match='two meanings to raw id 1'):
        LabelProtocol('mine', ('a', ), (1, ), [(0, 0, 0)], ood=(1, ))


def test_a_class_may_gather_several_raw_ids():
    protocol = LabelProtocol(
        'mine', ('a', 'b'), ((3, 4), 7), [(0, 0, 0)] * 2, ood=(1, ))
    assert meaning(protocol, 4) == (0, 0)
    assert meaning(protocol, 7) == (1, 0)
