"""Claims about PasteUnknown: what is pasted, where, and how it is labelled."""
import numpy as np
import pytest
from mmengine.dataset import Compose
from mmseg.registry import DATASETS, TRANSFORMS

from abnn_mmseg.datasets.pasting import PasteUnknown
from abnn_mmseg.datasets.patches import FILLS
from abnn_mmseg.datasets.protocol import IGNORE, OOD, VOID

PACKED = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnomalyAnnotations'),
    dict(type='PasteUnknown', seed=3),
    dict(type='PackAnomalyInputs'),
]


def sample(index=0, shape=(48, 64, 3), **maps):
    return dict(img=np.full(shape, 90, np.uint8), sample_idx=index,
                seg_fields=list(maps), **maps)


def paste(index=0, options=None, **maps):
    options = dict(dict(seed=0), **(options or {}))
    return PasteUnknown(**options)(sample(index, **maps))


@pytest.mark.parametrize('fill', FILLS)
def test_labels_are_where_the_image_changed(fill, save, tmp_path):
    rng = np.random.default_rng(0)
    save(tmp_path / 'other.png', rng.integers(0, 255, (40, 40, 3)))
    seg = np.full((48, 64), 2, np.uint8)
    for index in range(20):
        made = paste(index, dict(fills=[fill], images=str(tmp_path)),
                     gt_seg_map=seg)
        changed = (made['img'] != 90).any(-1)
        shown = made['gt_anomaly_map'] != 0
        assert made['img'].dtype == np.uint8
        assert (made['gt_anomaly_map'] == OOD).sum() > 4
        # A fill may be as grey as the image, and an edge too faint to count.
        assert (changed & shown).sum() > 0.7 * shown.sum()
        assert (changed & ~shown).sum() < 0.2 * changed.size
        assert ((made['gt_seg_map'] == IGNORE) == shown).all()
        assert (made['gt_seg_map'][~shown] == 2).all()
    assert (seg == 2).all()


def test_a_seed_makes_each_index_one_picture():
    first, again, other = paste(5), paste(5), paste(6)
    assert (first['img'] == again['img']).all()
    assert (first['gt_anomaly_map'] == again['gt_anomaly_map']).all()
    assert (first['img'] != other['img']).any()
    assert (paste(5, dict(seed=1))['img'] != first['img']).any()


def test_without_a_seed_numpys_generator_decides():
    def made():
        np.random.seed(7)
        return [paste(options=dict(seed=None))['img'] for _ in range(2)]

    (a, b), (c, d) = made(), made()
    assert (a == c).all() and (b == d).all()
    assert (a != b).any()


def test_what_was_ood_before_is_not_to_be_found():
    anomaly = np.zeros((48, 64), np.uint8)
    anomaly[:, :20] = OOD
    made = paste(options=dict(count=(0, 0)), gt_anomaly_map=anomaly)
    assert (made['gt_anomaly_map'][:, :20] == VOID).all()
    assert (made['gt_anomaly_map'][:, 20:] == 0).all()
    kept = paste(options=dict(count=(0, 0), keep_ood=True),
                 gt_anomaly_map=anomaly)
    assert (kept['gt_anomaly_map'] == anomaly).all()


def test_an_anomaly_map_is_made_of_classes_alone():
    seg = np.zeros((48, 64), np.uint8)
    seg[:9] = IGNORE
    made = paste(options=dict(count=(0, 0)), gt_seg_map=seg)
    assert 'gt_anomaly_map' in made['seg_fields']
    assert (made['gt_anomaly_map'][:9] == VOID).all()
    assert (made['gt_anomaly_map'][9:] == 0).all()


def test_things_have_the_size_that_was_asked_for():
    for index in range(30):
        made = paste(index, dict(count=(1, 1), size=(0.2, 0.4), edge=0))
        rows, columns = np.nonzero(made['gt_anomaly_map'] == OOD)
        extents = np.ptp(rows) + 1, np.ptp(columns) + 1
        assert max(extents) <= 0.4 * 48 * np.exp(0.5) + 1


def test_prob_leaves_images_alone():
    left = [(paste(i, dict(prob=0.5))['img'] == 90).all() for i in range(60)]
    assert 15 < sum(left) < 45


def test_a_float_image_stays_float_and_any_number_of_channels():
    results = sample(shape=(48, 64, 6))
    results['img'] = results['img'].astype(np.float32)
    made = PasteUnknown(seed=0)(results)
    assert made['img'].dtype == np.float32
    assert made['img'].shape == (48, 64, 6)
    assert (made['img'] != 90).any()


def test_a_dataset_packs_what_was_pasted(muad):
    dataset = DATASETS.build(dict(
        type='MUADDataset', data_root=str(muad), split='train',
        pipeline=PACKED))
    first, again = dataset[1], dataset[1]
    anomaly = first['data_samples'].gt_anomaly.data
    assert set(np.unique(anomaly)) <= {0, OOD, VOID}
    assert (anomaly == OOD).any()
    assert (first['inputs'] == again['inputs']).all()


def test_flips_move_the_pasted_labels():
    pipeline = Compose([
        TRANSFORMS.build(dict(type='PasteUnknown', seed=1)),
        dict(type='RandomFlip', prob=1.)])
    made = pipeline(sample())
    assert (made['gt_anomaly_map'] ==
            paste(options=dict(seed=1))['gt_anomaly_map'][:, ::-1]).all()


@pytest.mark.parametrize('options, message', [
    (dict(count=(3, 1)), r'count=\(3, 1\)'),
    (dict(size=(0, 2)), r'size=\(0, 2\)'),
    (dict(fills=['nois']), 'noise'),
    (dict(fills=[]), 'fills is empty'),
    (dict(prob=2), 'prob=2'),
    (dict(images='nowhere'), "images='nowhere'"),
])
def test_a_mistake_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        PasteUnknown(**options)
