"""Claims about the dataset base: folders, pairs, and what goes wrong."""
import numpy as np
import pytest
from mmseg.registry import DATASETS

from abnn_mmseg.datasets import (
    AnomalySegDataset,
    BinaryAnomalyDataset,
    MUADDataset,
)

PIPELINE = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnomalyAnnotations'),
    dict(type='PackAnomalyInputs'),
]
FOLDERS = dict(img_path='images', seg_map_path='labels')


def binary(root, **kwargs):
    kwargs = {'data_prefix': FOLDERS, 'pipeline': PIPELINE, **kwargs}
    return BinaryAnomalyDataset(data_root=str(root), **kwargs)


def test_missing_muad_says_folder_source_and_the_sketch_command(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        MUADDataset(split='val', data_root=str(tmp_path))
    for part in ('val/leftImg8bit', str(tmp_path / 'val'), 'ENSTA-U2IS/MUAD',
                 'abnn make-muad-sketch data/muad_sketch'):
        assert part in str(error.value)


def test_a_folder_without_images_is_not_an_empty_dataset(tmp_path):
    (tmp_path / 'images').mkdir()
    with pytest.raises(FileNotFoundError, match='no file .* in folder'):
        binary(tmp_path)


def test_suffixes_mix_and_masks_are_found_by_stem_in_natural_order(
        tmp_path, save_pair):
    names = ('f10.png', 'f2.jpg', 'f1.webp', 'town/f3.jpeg', 'f4.JPG')
    for name in names:
        stem = name.rsplit('.', 1)[0]
        save_pair(tmp_path / 'images' / name, tmp_path / f'labels/{stem}.png',
                  np.zeros((4, 6)))
    dataset = binary(tmp_path)
    found = [dataset.get_data_info(i)['img_path'] for i in range(len(dataset))]
    assert [path.split('images/')[1] for path in found] == [
        'f1.webp', 'f2.jpg', 'f4.JPG', 'f10.png', 'town/f3.jpeg']
    assert all(sample['inputs'].shape == (3, 4, 6) for sample in dataset)


def test_masks_may_lie_in_a_folder_per_image(tmp_path, save_pair):
    frame = tmp_path / 'frames'
    save_pair(frame / 'cow.jpg', frame / 'cow.labels/labels_semantic.png',
              [[0, 2]])
    dataset = binary(
        tmp_path,
        data_prefix=dict(img_path='frames', seg_map_path='frames'),
        img_suffix='.jpg',
        seg_map_suffix='.labels/labels_semantic',
        anomaly_values=(2, ))
    assert dataset[0]['data_samples'].gt_anomaly.data.tolist() == [[[0, 1]]]


def test_files_without_partner_are_listed(tmp_path, save_pair, save):
    save_pair(tmp_path / 'images/a.png', tmp_path / 'labels/a.png', [[0]])
    save(tmp_path / 'images/lonely.png', np.zeros((1, 1, 3)))
    save(tmp_path / 'labels/orphan.png', [[0]])
    with pytest.raises(ValueError, match='2 cases') as error:
        binary(tmp_path)
    assert 'image without label' in str(error.value)
    assert 'lonely.png' in str(error.value)
    assert 'label without image' in str(error.value)
    assert 'orphan.png' in str(error.value)


def test_two_images_of_one_stem_are_an_error(tmp_path, save_pair, save):
    save_pair(tmp_path / 'images/a.png', tmp_path / 'labels/a.png', [[0]])
    save(tmp_path / 'images/a.jpg', np.zeros((1, 1, 3)))
    with pytest.raises(ValueError, match='same stem'):
        binary(tmp_path)


def test_a_list_file_picks_images_and_keeps_its_order(tmp_path, save_pair):
    for stem in 'abc':
        save_pair(tmp_path / f'images/{stem}.png',
                  tmp_path / f'labels/{stem}.png', [[0]])
    (tmp_path / 'list.txt').write_text('c\na\n')
    dataset = binary(tmp_path, ann_file='list.txt')
    assert [dataset.get_data_info(i)['img_path'][-5] for i in (0, 1)] == [
        'c', 'a']
    (tmp_path / 'list.txt').write_text('z\n')
    with pytest.raises(ValueError, match="no image for listed name 'z'"):
        binary(tmp_path, ann_file='list.txt')


def test_images_alone_need_no_labels(tmp_path, save):
    save(tmp_path / 'images/a.png', np.zeros((2, 2, 3)))
    dataset = binary(
        tmp_path,
        data_prefix=dict(img_path='images'),
        pipeline=[PIPELINE[0], PIPELINE[2]])
    assert 'gt_anomaly' not in dataset[0]['data_samples']
    dataset = binary(tmp_path, data_prefix=dict(img_path='images'))
    with pytest.raises(ValueError, match='has no label'):
        dataset[0]


def test_an_unknown_raw_id_names_file_and_ids(tmp_path, save_pair):
    save_pair(tmp_path / 'images/a.png', tmp_path / 'labels/a.png',
              [[0, 1, 7, 9]])
    with pytest.raises(ValueError, match=r'labels/a\.png .*: 7, 9\. Known'):
        binary(tmp_path)[0]


def test_ids_above_255_do_not_wrap_around(tmp_path, save_pair):
    from PIL import Image
    save_pair(tmp_path / 'images/a.png', tmp_path / 'labels/a.png', [[0, 0]])
    Image.fromarray(np.array([[0, 257]], np.uint16)).save(
        tmp_path / 'labels/a.png')
    with pytest.raises(ValueError, match='257'):
        binary(tmp_path)[0]


def test_a_label_of_another_size_names_both_files(tmp_path, save_pair, save):
    save_pair(tmp_path / 'images/a.png', tmp_path / 'labels/a.png',
              np.zeros((4, 6)))
    save(tmp_path / 'labels/a.png', np.zeros((4, 5)))
    with pytest.raises(
            ValueError, match=r'labels/a\.png is 5x4 .*images/a\.png is 6x4'):
        binary(tmp_path)[0]


@pytest.mark.parametrize('broken', ['images', 'labels'])
def test_half_a_file_is_named(tmp_path, save_pair, save, broken):
    rng = np.random.default_rng(0)
    save_pair(tmp_path / 'images/a.png', tmp_path / 'labels/a.png',
              rng.integers(0, 2, (64, 64)))
    save(tmp_path / 'images/a.png', rng.integers(0, 255, (64, 64, 3)))
    path = tmp_path / broken / 'a.png'
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(OSError, match=rf'Cannot read .*{broken}/a\.png'):
        binary(tmp_path)[0]


def test_colour_labels_are_refused_and_grey_rgb_is_read(tmp_path, save_pair,
                                                        save):
    save_pair(tmp_path / 'images/a.png', tmp_path / 'labels/a.png', [[0, 1]])
    save(tmp_path / 'labels/a.png', [[[0, 0, 0], [1, 1, 1]]])
    sample = binary(tmp_path)[0]['data_samples']
    assert sample.gt_anomaly.data.tolist() == [[[0, 1]]]
    save(tmp_path / 'labels/a.png', [[[0, 0, 0], [1, 0, 0]]])
    with pytest.raises(ValueError, match='colour image'):
        binary(tmp_path)[0]


def test_classes_that_contradict_the_protocol_are_refused(muad):
    with pytest.raises(ValueError, match='contradicts the label protocol'):
        MUADDataset(
            split='train',
            data_root=str(muad),
            metainfo=dict(classes=('road', 'car')))


def test_own_data_is_described_in_the_config_alone(tmp_path, save_pair):
    save_pair(tmp_path / 'images/a.png', tmp_path / 'labels/a.png',
              [[5, 6, 9, 0]])
    dataset = DATASETS.build(
        dict(
            type='AnomalySegDataset',
            labels=dict(
                name='mine',
                classes=['street', 'rest'],
                ids=[5, 6],
                palette=[[1, 2, 3], [4, 5, 6]],
                ood=[9],
                void=[0]),
            data_root=str(tmp_path),
            data_prefix=FOLDERS,
            pipeline=PIPELINE))
    assert isinstance(dataset, AnomalySegDataset)
    assert dataset.metainfo['palette'] == [[1, 2, 3], [4, 5, 6]]
    sample = dataset[0]['data_samples']
    assert sample.gt_sem_seg.data.tolist() == [[[0, 1, 255, 255]]]
    assert sample.gt_anomaly.data.tolist() == [[[0, 0, 1, 255]]]
