"""The embedded dataset: MUAD's layout, deterministic, and varied."""
import cv2
import numpy as np
import pytest

from abnn_mmseg.datasets.muad_sketch import draw_scene, make_muad_sketch

COUNTS = dict(train=10, val=2, test_id=2, test_ood=6)
ID_RAW = {*range(12), 13, 14, 15}
OOD_RAW = {12, 16, 17, 18, 19, 20}
VOID = 255


def files(root):
    return {path.relative_to(root).as_posix(): path.read_bytes()
            for path in root.rglob('*') if path.is_file()}


@pytest.fixture(scope='module')
def sketch(tmp_path_factory):
    root = tmp_path_factory.mktemp('sketch')
    return root, make_muad_sketch(root, counts=COUNTS, seed=3, workers=1)


def labels(root, split):
    return [cv2.imread(str(path), cv2.IMREAD_UNCHANGED) for path in
            sorted((root / split / 'leftLabel').iterdir())]


def test_folders_and_names_are_those_of_muad(sketch):
    root, _ = sketch
    expected = {f'{split}/{folder}/{i:06d}_{folder}.png'
                for split, count in COUNTS.items() for i in range(count)
                for folder in ('leftImg8bit', 'leftLabel')}
    assert set(files(root)) == expected | {'muad_sketch.json'}


def test_images_are_rgb_and_labels_are_bytes_of_the_same_size(sketch):
    root, _ = sketch
    for path in root.rglob('*_leftImg8bit.png'):
        image = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        label = cv2.imread(
            str(path).replace('leftImg8bit', 'leftLabel'),
            cv2.IMREAD_UNCHANGED)
        assert image.dtype == label.dtype == np.uint8
        assert image.shape == (128, 256, 3) and label.shape == (128, 256)


def test_training_never_shows_an_unseen_class(sketch):
    root, _ = sketch
    for split in ('train', 'val', 'test_id'):
        for label in labels(root, split):
            assert set(np.unique(label)) <= ID_RAW | {VOID}


def test_every_ood_image_holds_an_unseen_object(sketch):
    root, _ = sketch
    for label in labels(root, 'test_ood'):
        assert np.isin(label, list(OOD_RAW)).sum() >= 40
        assert set(np.unique(label)) <= ID_RAW | OOD_RAW | {VOID}


def test_all_classes_appear_and_all_kinds_of_strangers():
    seen, strange = set(), set()
    for i in range(60):
        _, label = draw_scene(np.random.default_rng([7, i]))
        seen |= set(np.unique(label).tolist())
        _, label = draw_scene(np.random.default_rng([8, i]), ood=True)
        strange |= set(np.unique(label).tolist())
    assert seen == ID_RAW | {VOID}
    assert strange - seen == OOD_RAW


def test_labels_agree_with_what_is_seen():
    """Where two classes meet, colours change more than elsewhere."""
    across, within = [], []
    for i in range(6):
        image, label = draw_scene(np.random.default_rng([9, i]))
        change = np.abs(np.diff(image.astype(float), axis=1)).mean(2)
        border = np.diff(label.astype(int), axis=1) != 0
        across.append(change[border].mean())
        within.append(change[~border].mean())
    assert np.mean(across) > 1.5 * np.mean(within)


def test_bytes_do_not_depend_on_the_number_of_processes(sketch, tmp_path):
    root, _ = sketch
    make_muad_sketch(tmp_path, counts=COUNTS, seed=3, workers=2)
    assert files(tmp_path) == files(root)


def test_an_image_does_not_depend_on_how_many_there_are(sketch, tmp_path):
    root, _ = sketch
    make_muad_sketch(tmp_path, counts=dict(test_ood=1), seed=3)
    name = 'test_ood/leftImg8bit/000000_leftImg8bit.png'
    assert (tmp_path / name).read_bytes() == (root / name).read_bytes()


def test_other_seeds_and_sizes_draw_other_streets():
    one = draw_scene(np.random.default_rng(1), (96, 64))
    two = draw_scene(np.random.default_rng(2), (96, 64))
    assert one[0].shape == (64, 96, 3)
    assert (one[0] != two[0]).any() and (one[1] != two[1]).any()


def test_running_again_changes_nothing(sketch):
    root, manifest = sketch
    before = {path: path.stat().st_mtime_ns for path in root.rglob('*')}
    assert make_muad_sketch(root, counts=COUNTS, seed=3) == manifest
    assert before == {p: p.stat().st_mtime_ns for p in root.rglob('*')}


def test_another_sketch_is_refused_unless_forced(tmp_path):
    make_muad_sketch(tmp_path, counts=dict(train=2), size=(64, 32))
    with pytest.raises(ValueError, match='other parameters.*--force'):
        make_muad_sketch(tmp_path, counts=dict(train=1), size=(64, 32))
    make_muad_sketch(tmp_path, counts=dict(train=1), size=(64, 32),
                     force=True)
    assert len(labels(tmp_path, 'train')) == 1


def test_an_interrupted_sketch_is_finished(tmp_path):
    options = dict(counts=dict(train=2), size=(64, 32))
    make_muad_sketch(tmp_path, **options)
    whole = files(tmp_path)
    (tmp_path / 'muad_sketch.json').rename(
        tmp_path / 'muad_sketch.unfinished.json')
    (tmp_path / 'train/leftLabel/000001_leftLabel.png').unlink()
    make_muad_sketch(tmp_path, **options)
    assert files(tmp_path) == whole


def test_images_of_others_are_never_overwritten(tmp_path):
    folder = tmp_path / 'val' / 'leftLabel'
    folder.mkdir(parents=True)
    (folder / '000000_leftLabel.png').write_bytes(b'mine')
    with pytest.raises(ValueError, match='not drawn by MUAD-sketch'):
        make_muad_sketch(tmp_path, counts=dict(val=1), force=True)
    assert files(folder) == {'000000_leftLabel.png': b'mine'}


@pytest.mark.parametrize('wrong, message', [
    (dict(counts=dict(training=3)), 'training'),
    (dict(size=(256, 8)), 'at least 32'),
    (dict(seed=-1), 'seed=-1')])
def test_what_cannot_be_drawn_is_refused(tmp_path, wrong, message):
    with pytest.raises(ValueError, match=message):
        make_muad_sketch(tmp_path, **wrong)
