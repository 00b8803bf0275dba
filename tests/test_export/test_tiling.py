"""Tiles give what ordinary slide inference does, in the memory of a tile."""
import cv2
import numpy as np
import pytest
from mmengine.config import ConfigDict
from sketches import abnn_config

from abnn_mmseg.export import ABNNInferencer, export_maps, tiling
from abnn_mmseg.export.tiling import make_tiles


@pytest.fixture(scope='module')
def inferencer(sketch, base, tmp_path_factory):
    cfg = abnn_config(
        sketch, tmp_path_factory.mktemp('work'), base, test_cfg=ConfigDict(
            mode='slide', crop_size=(32, 48), stride=(20, 32)))
    return ABNNInferencer(cfg, str(base), device='cpu', scores=[
        'entropy', 'mutual_information'])


@pytest.fixture
def image(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (91, 120, 3), np.uint8)
    np.save(tmp_path / 'aerial.npy', pixels)
    return tmp_path / 'aerial.npy'


def test_tiles_give_the_maps_of_ordinary_slide_inference(inferencer, image,
                                                         tmp_path):
    assert export_maps(inferencer, image, tmp_path, ['npy', 'gallery'],
                        tile=50) == (1, 0)
    assert (tmp_path / 'gallery' / 'index.html').is_file()
    expected, = inferencer(np.load(image))
    for score, map_ in expected.maps.items():
        values = np.load(tmp_path / 'npy' / score / 'aerial.npy')
        np.testing.assert_allclose(values, map_, atol=1e-5)
    prediction = np.load(tmp_path / 'npy' / 'prediction' / 'aerial.npy')
    assert prediction.dtype == np.uint8
    assert (prediction == expected.prediction).mean() > 0.999


def test_pictures_get_every_nth_pixel(inferencer, image, tmp_path,
                                      monkeypatch):
    monkeypatch.setattr(tiling, 'PREVIEW_SIDE', 40)
    export_maps(inferencer, image, tmp_path, ['npy', 'npz'], tile=50)
    whole = np.load(tmp_path / 'npy' / 'entropy' / 'aerial.npy')
    with np.load(tmp_path / 'npz' / 'aerial.npz') as arrays:
        np.testing.assert_array_equal(arrays['entropy'], whole[::3, ::3])


def test_stored_thresholds_are_applied(inferencer, image, tmp_path,
                                       monkeypatch):
    thresholds = dict(entropy=0.3, mutual_information=0.05)
    monkeypatch.setattr(ABNNInferencer, 'thresholds', thresholds)
    export_maps(inferencer, image, tmp_path, ['npy', 'mask'], tile=200)
    for score, threshold in thresholds.items():
        mask = cv2.imread(str(tmp_path / 'mask' / score / 'aerial.png'), 0)
        values = np.load(tmp_path / 'npy' / score / 'aerial.npy')
        np.testing.assert_array_equal(mask > 0, values >= threshold)


def test_nothing_is_overwritten_and_resume_skips(inferencer, image, tmp_path):
    export_maps(inferencer, image, tmp_path, tile=200)
    with pytest.raises(FileExistsError, match='--overwrite'):
        export_maps(inferencer, image, tmp_path, tile=200)
    assert export_maps(
        inferencer, image, tmp_path, tile=100, resume=True) == (0, 1)


@pytest.mark.parametrize('size', [30, 48, 77, 80, 81, 131, 200])
@pytest.mark.parametrize('side', [20, 50, 64, 300])
def test_a_tile_sees_the_windows_that_touch_it(size, side):
    """Against all windows of the axis, one by one."""
    crop, stride = 48, 32
    count = max(size - crop + stride - 1, 0) // stride + 1
    windows = [(max(min(i * stride + crop, size) - crop, 0),
                min(i * stride + crop, size)) for i in range(count)]
    covered = 0
    for tile in make_tiles((size, 1), side, (crop, 1), (stride, 1)):
        rows, seen = tile.rows, tile.seen_rows
        touching = [w for w in windows
                    if w[0] < rows.stop and w[1] > rows.start]
        assert (seen.start, seen.stop) == (touching[0][0], touching[-1][1])
        assert rows.start == covered
        covered = rows.stop
    assert covered == size


def test_a_config_without_windows_says_what_to_write(sketch, base, tmp_path):
    whole = ABNNInferencer(
        abnn_config(sketch, tmp_path, base), str(base), device='cpu')
    with pytest.raises(ValueError, match="mode='slide'"):
        export_maps(whole, tmp_path / 'x.npy', tmp_path, tile=64)
