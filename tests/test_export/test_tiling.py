"""Tiles give what ordinary slide inference does, in the memory of a tile."""
import json
import os

import cv2
import numpy as np
import pytest
from mmengine.config import ConfigDict
from sketches import abnn_config

from abnn_mmseg.export import ABNNInferencer, export_maps, tiling
from abnn_mmseg.export.tile_grid import make_tiles


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


def test_the_posterior_is_left_as_it_was(inferencer, image, tmp_path):
    posterior = inferencer.model.posterior
    before = dict(vars(posterior))
    export_maps(inferencer, image, tmp_path, tile=50)
    assert inferencer.model.posterior is posterior
    assert posterior.draws_per_pass is None
    assert vars(posterior).keys() == before.keys()


def test_all_options_work_with_tiles(inferencer, tmp_path):
    """Limit, batches, probability, ground truth and ranking."""
    for size, options in [('whole', {}), ('tiles', dict(tile=24))]:
        assert export_maps(
            inferencer, 'test', tmp_path / size, ['npz', 'csv', 'gallery'],
            limit=2, batch_size=3, probability=True, **options) == (2, 0)
    for path in (tmp_path / 'whole/npz').rglob('*.npz'):
        name = path.relative_to(tmp_path / 'whole')
        with np.load(path) as whole, np.load(tmp_path / 'tiles' / name) as own:
            np.testing.assert_allclose(
                own['probability'], whole['probability'], atol=1e-5)
            np.testing.assert_allclose(
                own['entropy'], whole['entropy'], atol=1e-5)
    items = [sorted((tmp_path / size / 'gallery/items').rglob('*.json'))
             for size in ('whole', 'tiles')]
    for one, other in zip(*items):
        one, other = (json.loads(path.read_text()) for path in (one, other))
        assert one['truth'] and other['truth']
        assert one['anomaly'] == other['anomaly']


def test_a_pipeline_that_pads_is_refused(sketch, base, image, tmp_path):
    cfg = abnn_config(
        sketch, tmp_path, base, test_cfg=ConfigDict(
            mode='slide', crop_size=(32, 48), stride=(20, 32)))
    cfg.test_dataloader.dataset.pipeline.insert(
        1, dict(type='Pad', size=(200, 200)))
    padding = ABNNInferencer(cfg, str(base), device='cpu')
    with pytest.raises(ValueError, match=r'into \[200, 200\].*remove'):
        export_maps(padding, image, tmp_path / 'out', tile=50)
    assert not list((tmp_path / 'out').rglob('*.npy'))


@pytest.mark.skipif(os.name != 'posix', reason='limits are of POSIX')
def test_a_disk_that_is_full_is_a_sentence(inferencer, image, tmp_path):
    """A limit on the size of files stands in for the disk."""
    import resource
    import signal
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, before[1]))
    try:
        with pytest.raises(OSError, match="Cannot write 'aerial.npy' in "
                           "folder '[^']*': File too large.$"):
            export_maps(inferencer, image, tmp_path / 'out', tile=50)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert not list((tmp_path / 'out/npy').rglob('*.npy'))
