"""Claims about each dataset: its folders, classes and OOD labels."""
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmseg.registry import DATASETS

from abnn_mmseg.datasets import (
    BDDAnomalyDataset,
    BinaryAnomalyDataset,
    CamVidAnomalyDataset,
    MUADDataset,
    StreetHazardsDataset,
)
from abnn_mmseg.datasets.bdd_split import split_bdd, write_lists

CONFIGS = Path(__file__).parents[2] / 'configs' / '_base_' / 'datasets'
PIPELINE = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnomalyAnnotations'),
    dict(type='PackAnomalyInputs'),
]


def truth(dataset, index=0):
    """(class map, anomaly map) of one image."""
    sample = dataset[index]['data_samples']
    assert sample.gt_anomaly.data.dtype == torch.uint8
    return sample.gt_sem_seg.data[0], sample.gt_anomaly.data[0]


@pytest.mark.parametrize('protocol, ood_ids', [('15', 6), ('19', 5)])
def test_muad_has_every_pixel_in_one_of_three_states(muad, protocol, ood_ids):
    dataset = MUADDataset(
        split='test_ood',
        protocol=protocol,
        data_root=str(muad),
        pipeline=PIPELINE)
    assert len(dataset) == 2
    assert len(dataset.metainfo['classes']) == int(protocol)
    assert len(dataset.metainfo['palette']) == int(protocol)
    seg, anomaly = truth(dataset)
    assert (anomaly == 1).sum() == 4 * ood_ids
    assert (anomaly == 255).sum() == 8
    assert torch.equal(seg == 255, anomaly != 0)


def test_muad_has_all_eight_splits():
    assert len(MUADDataset.SPLITS) == 8
    with pytest.raises(ValueError, match="split='test' is unknown.*'test_"):
        MUADDataset(split='test')
    with pytest.raises(ValueError, match="protocol='21' is unknown"):
        MUADDataset(split='val', protocol='21')


def test_mmseg_folders_win_over_the_split(muad):
    dataset = MUADDataset(
        split='val',
        data_root=str(muad),
        data_prefix=dict(
            img_path='train/leftImg8bit', seg_map_path='train/leftLabel'))
    assert len(dataset) == 3


def test_streethazards_subtracts_one_and_keeps_the_anomaly(
        tmp_path, save_pair):
    save_pair(tmp_path / 'test/images/test/t5/1.png',
              tmp_path / 'test/annotations/test/t5/1.png', [[1, 13, 14]])
    dataset = StreetHazardsDataset(
        split='test', data_root=str(tmp_path), pipeline=PIPELINE)
    seg, anomaly = truth(dataset)
    assert seg.tolist() == [[0, 12, 255]]
    assert anomaly.tolist() == [[0, 0, 1]]
    assert len(dataset.metainfo['classes']) == 13


def test_camvid_reads_the_segnet_layout_with_any_held_out_class(
        tmp_path, save_pair):
    save_pair(tmp_path / 'train/a.jpg', tmp_path / 'trainannot/a.png',
              [[0, 8, 9, 10, 11]])
    root = dict(data_root=str(tmp_path), pipeline=PIPELINE)
    seg, anomaly = truth(CamVidAnomalyDataset(split='train', **root))
    assert seg.tolist() == [[0, 8, 255, 255, 255]]
    assert anomaly.tolist() == [[0, 0, 1, 1, 255]]
    dataset = CamVidAnomalyDataset(split='train', held_out=['Car'], **root)
    seg, anomaly = truth(dataset)
    assert seg.tolist() == [[0, 255, 8, 9, 255]]
    assert anomaly.tolist() == [[0, 1, 0, 0, 255]]
    assert dataset.metainfo['classes'][8] == 'Pedestrian'


def test_camvid_can_be_read_drive_by_drive(tmp_path, save_pair):
    for name in ('0001TP_006690', '0006R0_f00930', '0006R0_f00960'):
        save_pair(tmp_path / f'train/{name}.png',
                  tmp_path / f'trainannot/{name}.png', [[0]])

    def read(*drives):
        return CamVidAnomalyDataset(
            split='train', drives=drives if drives[1:] else drives[0],
            data_root=str(tmp_path), pipeline=PIPELINE)

    assert [len(read(*drives)) for drives in (
        ('0001TP', ), ('0006R0', ), ('0001TP', '0006R0'))] == [1, 2, 3]
    save_pair(tmp_path / 'train/0016E5_00390.png',
              tmp_path / 'other/0016E5_00390.png', [[0]])
    assert len(read('0006R0')) == 2
    with pytest.raises(FileNotFoundError, match="'0016E5'. in .*trainannot"):
        read('0016E5')
    with pytest.raises(ValueError, match="did you mean '0016E5'"):
        read('16E5')


def test_binary_masks_have_no_class_labels_but_the_models_classes(
        tmp_path, save_pair):
    save_pair(tmp_path / 'images/a.webp', tmp_path / 'labels/a.png',
              [[0, 2, 255]])
    dataset = BinaryAnomalyDataset(
        anomaly_values=(2, ),
        metainfo=dict(classes=('a', 'b'), palette=[[1, 1, 1], [2, 2, 2]]),
        data_root=str(tmp_path),
        data_prefix=dict(img_path='images', seg_map_path='labels'),
        pipeline=PIPELINE)
    seg, anomaly = truth(dataset)
    assert (seg == 255).all()
    assert anomaly.tolist() == [[0, 1, 255]]
    assert dataset.metainfo['classes'] == ('a', 'b')
    assert dataset.metainfo['palette'] == [[1, 1, 1], [2, 2, 2]]


FRAMES = dict(
    road_anomaly=('frames/a.jpg', 'frames/a.labels/labels_semantic.png',
                  'frames/a.labels/labels_semantic_color.png', [[0, 2]]),
    fishyscapes_laf=(
        'leftImg8bit/test/04_Way/04_Way_000000_000030_leftImg8bit.png',
        'fishyscapes_lostandfound/0007_04_Way_000000_000030_labels.png',
        'leftImg8bit/train/01_Way/01_Way_000000_000010_leftImg8bit.png',
        [[0, 1, 255]]),
    smiyc_anomaly=('images/validation0000.jpg',
                   'labels_masks/validation0000_labels_semantic.png',
                   'images/animals01.jpg', [[0, 1, 255]]),
    smiyc_obstacle=('images/validation_1.webp',
                    'labels_masks/validation_1_labels_semantic.png',
                    'images/curvy-street_1.webp', [[0, 1, 255]]))


@pytest.mark.parametrize('name', FRAMES)
def test_road_anomaly_benchmarks_are_read_as_published(
        name, tmp_path, save, save_pair):
    """Colour versions of masks, and images without one, lie among them."""
    image, label, other, raw = FRAMES[name]
    save_pair(tmp_path / image, tmp_path / label, raw)
    save(tmp_path / other, np.zeros((1, len(raw[0]), 3)))
    dataset = Config.fromfile(CONFIGS / f'{name}.py').test_dataloader.dataset
    dataset.data_root = str(tmp_path)
    dataset = DATASETS.build(dataset)
    assert len(dataset) == 1
    assert truth(dataset)[1].tolist() == [[0, 1, 255][:len(raw[0])]]


def test_images_without_label_are_an_error_unless_expected(
        tmp_path, save, save_pair):
    save_pair(tmp_path / 'images/a.png', tmp_path / 'labels/a.png', [[0]])
    save(tmp_path / 'images/b.png', np.zeros((1, 1, 3)))
    folders = dict(data_root=str(tmp_path), data_prefix=dict(
        img_path='images', seg_map_path='labels'))
    with pytest.raises(ValueError, match='image without label.*b.png'):
        BinaryAnomalyDataset(**folders)
    assert len(BinaryAnomalyDataset(only_labelled=True, **folders)) == 1
    with pytest.raises(ValueError, match='b.png does not follow stem_patt'):
        BinaryAnomalyDataset(stem_pattern='^(a)$', **folders)


@pytest.fixture
def bdd(tmp_path, save_pair):
    """Train: plain, train (16), bicycle (18). Val: plain, motorcycle (17)."""
    for stem, raw in (('train/a', 0), ('train/b', 16), ('train/c', 18),
                      ('val/d', 13), ('val/e', 17)):
        save_pair(tmp_path / f'images/{stem}.jpg',
                  tmp_path / f'labels/{stem}_train_id.png',
                  np.array([[0, raw, 255]]))
    return tmp_path


def test_bdd_images_with_unknown_vehicles_move_to_test(bdd):
    splits = split_bdd(str(bdd / 'images'), str(bdd / 'labels'))
    assert splits == dict(
        train=['train/a', 'train/c'], val=['val/d'], test=['train/b', 'val/e'])
    write_lists(splits, str(bdd))
    root = dict(data_root=str(bdd), pipeline=PIPELINE)
    dataset = BDDAnomalyDataset(split='test', **root)
    assert len(dataset) == 2
    assert len(dataset.metainfo['classes']) == 17
    assert truth(dataset)[1].tolist() == [[0, 1, 255]]
    seg, anomaly = truth(BDDAnomalyDataset(split='train', **root), 1)
    assert seg.tolist() == [[0, 16, 255]]
    assert anomaly.tolist() == [[0, 0, 255]]


def test_bdd_with_bicycle_has_its_own_lists(bdd):
    held_out = ('train', 'motorcycle', 'bicycle')
    with pytest.raises(FileNotFoundError, match='make-bdd-anomaly'):
        BDDAnomalyDataset(split='test', held_out=held_out, data_root=str(bdd))
    splits = split_bdd(
        str(bdd / 'images'), str(bdd / 'labels'), held_out=held_out)
    write_lists(splits, str(bdd), held_out)
    dataset = BDDAnomalyDataset(
        split='test', held_out=held_out, data_root=str(bdd))
    assert len(dataset) == 3
    assert len(dataset.metainfo['classes']) == 16


def test_the_bdd_command_warns_if_counts_are_not_the_published(
        bdd, run_tool, capsys):
    assert run_tool('make_bdd_anomaly.py', bdd) == 0
    printed = capsys.readouterr().out
    assert '6688' in printed
    assert 'not the published counts' in printed
    assert len(BDDAnomalyDataset(split='train', data_root=str(bdd))) == 2


def test_bdd_labels_of_another_name_are_reported_with_the_option(bdd):
    with pytest.raises(ValueError, match='--label-suffix'):
        split_bdd(str(bdd / 'images'), str(bdd / 'labels'), '_id')
