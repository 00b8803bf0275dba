"""Each format gives back what was written; a set shares its colours."""
import json
from math import log

import cv2
import numpy as np
import pytest
from PIL import Image
from results import PALETTE, files, make_result, make_writer

from abnn_mmseg.export.writers import natural_range
from abnn_mmseg.utils.colours import colour_table, colourise


@pytest.mark.parametrize('dtype', ['float16', 'float32'])
def test_npy_gives_the_map_back(tmp_path, dtype):
    result = make_result()
    make_writer('npy', tmp_path, dtype=dtype).write(result)
    values = np.load(tmp_path / 'npy/entropy/a/b/000012.npy')
    assert values.dtype == dtype
    np.testing.assert_array_equal(
        values, result.maps['entropy'].astype(dtype))


def test_npz_holds_all_maps_and_the_prediction(tmp_path):
    result = make_result()
    make_writer('npz', tmp_path, ['entropy', 'energy']).write(result)
    with np.load(tmp_path / 'npz/a/b/000012.npz') as arrays:
        assert set(arrays) == {'entropy', 'energy', 'prediction'}
        np.testing.assert_array_equal(arrays['energy'],
                                      result.maps['energy'])
        np.testing.assert_array_equal(arrays['prediction'],
                                      result.prediction)


@pytest.mark.parametrize('score', ['entropy', 'energy'])
def test_png16_decodes_to_half_a_step(tmp_path, score):
    result = make_result()
    make_writer('png16', tmp_path, [score]).write(result)
    path = tmp_path / 'png16' / score / 'a/b/000012.png'
    pixels = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    scale = json.loads(path.with_suffix('.json').read_text())
    assert pixels.dtype == np.uint16
    step = (scale['max'] - scale['min']) / 65535
    values = scale['min'] + step * pixels.astype(np.float64)
    assert abs(values - result.maps[score]).max() <= 0.5001 * step


def test_png16_of_a_set_share_one_scale_where_the_score_has_one(tmp_path):
    writer = make_writer('png16', tmp_path)
    for seed in (0, 1):
        writer.write(make_result(str(seed), seed, top=1 - 0.5 * seed))
    scales = [json.loads((tmp_path / f'png16/entropy/{seed}.json')
                         .read_text()) for seed in (0, 1)]
    assert scales[0] == scales[1]
    assert scales[0]['max'] == pytest.approx(log(3))


def test_png16_of_a_constant_map_decodes(tmp_path):
    result = make_result()
    result.maps['energy'][:] = -4.5
    make_writer('png16', tmp_path, ['energy']).write(result)
    scale = json.loads(
        (tmp_path / 'png16/energy/a/b/000012.json').read_text())
    assert scale['min'] == scale['max'] == -4.5


def test_png16_refuses_nan_and_says_what_to_use(tmp_path):
    result = make_result()
    result.maps['entropy'][0, 0] = np.nan
    with pytest.raises(ValueError, match='npy'):
        make_writer('png16', tmp_path).write(result)
    assert files(tmp_path) == []


def test_tiff_gives_the_map_back(tmp_path):
    result = make_result()
    make_writer('tiff', tmp_path).write(result)
    values = cv2.imread(str(tmp_path / 'tiff/entropy/a/b/000012.tiff'),
                        cv2.IMREAD_UNCHANGED)
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, result.maps['entropy'])


def test_hdf5_is_what_the_benchmark_reads(tmp_path):
    h5py = pytest.importorskip('h5py')
    result = make_result('berlin/berlin_000012_leftImg8bit')
    make_writer('hdf5', tmp_path, method='Mine',
                dataset='LostAndFound-test').write(result)
    path = (tmp_path / 'anomaly_p' / 'Mine_entropy' / 'LostAndFound-test' /
            'berlin_000012.hdf5')
    with h5py.File(path, 'r') as file:
        values = file['value'][:]
    assert values.dtype == np.float16
    np.testing.assert_array_equal(
        values, result.maps['entropy'].astype(np.float16))


def test_hdf5_refuses_two_images_of_one_frame(tmp_path):
    pytest.importorskip('h5py')
    writer = make_writer('hdf5', tmp_path, overwrite=True)
    writer.write(make_result('a/0'))
    with pytest.raises(ValueError, match='a/0'):
        writer.write(make_result('b/0'))


def test_prediction_pixels_are_ids_in_the_palette(tmp_path):
    result = make_result()
    make_writer('prediction', tmp_path).write(result)
    picture = Image.open(tmp_path / 'prediction/a/b/000012.png')
    assert picture.mode == 'P'
    np.testing.assert_array_equal(np.array(picture), result.prediction)
    np.testing.assert_array_equal(
        np.array(picture.convert('RGB')),
        np.array(PALETTE, np.uint8)[result.prediction])


@pytest.mark.parametrize('format', ['heatmap', 'overlay'])
def test_equal_values_have_equal_colours_across_the_set(tmp_path, format):
    writer = make_writer(format, tmp_path)
    for seed in (0, 1):
        result = make_result(str(seed), seed, top=1 - 0.5 * seed)
        result.maps['entropy'][0, 0] = 0.25
        result.image[0, 0] = 100
        writer.write(result)
    first, second = (cv2.imread(str(tmp_path / format / 'entropy' / name))
                     for name in ('0.png', '1.png'))
    assert first.shape[1] > 36, 'there is no colour bar'
    np.testing.assert_array_equal(first[0, 0], second[0, 0])
    np.testing.assert_array_equal(first[:, 36:], second[:, 36:])


def test_heatmap_spans_the_range_the_score_can_take(tmp_path):
    result = make_result()
    result.maps['entropy'][0, :2] = 0, log(3)
    make_writer('heatmap', tmp_path).write(result)
    picture = cv2.imread(str(tmp_path / 'heatmap/entropy/a/b/000012.png'))
    table = colour_table('inferno')
    np.testing.assert_array_equal(picture[0, 0, ::-1], table[0])
    # The rounding of log 3 to float32 may cost the last colour.
    assert abs(picture[0, 1, ::-1].astype(int) - table[255]).max() < 8


def test_colours_get_lighter_with_the_value():
    ramp = colourise(np.linspace(0, 1, 50)[None], (0, 1)).astype(np.float32)
    luminance = ramp[0] @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(luminance) >= -0.5).all()


def test_a_score_without_a_range_asks_for_a_scale(tmp_path):
    with pytest.raises(ValueError, match='--scale'):
        make_writer('heatmap', tmp_path, ['energy']).write(make_result())
    make_writer('heatmap', tmp_path, ['energy'],
                scale=(-20, 20)).write(make_result())
    assert files(tmp_path) == ['heatmap/energy/a/b/000012.png']


def test_ranges_follow_from_the_number_of_classes():
    assert natural_range('entropy', 19) == (0, log(19))
    assert natural_range('base: msp', 4) == (0, 0.75)
    assert natural_range('energy', 19) is None
    assert natural_range('entropy', 0) is None
