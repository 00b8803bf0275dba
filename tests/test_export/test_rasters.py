"""A GeoTIFF comes out where it came in, window by window."""
import numpy as np
import pytest
import torch
from mmengine.config import ConfigDict
from sketches import abnn_config
from toys import build

from abnn_mmseg.export import ABNNInferencer, export_maps

rasterio = pytest.importorskip('rasterio')
SLIDE = dict(mode='slide', crop_size=(32, 48), stride=(20, 32))
SCORES = ['entropy', 'mutual_information']


@pytest.fixture(scope='module')
def inferencer(sketch, base, tmp_path_factory):
    cfg = abnn_config(sketch, tmp_path_factory.mktemp('work'), base,
                      test_cfg=ConfigDict(SLIDE))
    return ABNNInferencer(cfg, str(base), device='cpu', scores=SCORES)


def four_bands(sketch, folder, bands=4, **loader):
    """A network of four bands, whose loader takes what the file has."""
    cfg = abnn_config(sketch, folder, folder / 'base.pth',
                      test_cfg=ConfigDict(SLIDE))
    cfg.model.backbone.in_channels = bands
    cfg.model.data_preprocessor.update(
        mean=[9000.], std=[5000.], bgr_to_rgb=False)
    cfg.test_dataloader.dataset.pipeline[0].update(
        color_type='unchanged', **loader)
    torch.save(build(cfg.model).state_dict(), folder / 'base.pth')
    return ABNNInferencer(cfg, device='cpu', scores=SCORES)


def write(path, bands, **options):
    pixels = np.ascontiguousarray(bands)
    with rasterio.open(
            path, 'w', driver='GTiff', count=len(pixels),
            height=pixels.shape[1], width=pixels.shape[2],
            dtype=pixels.dtype, crs='EPSG:32633',
            transform=rasterio.transform.from_origin(
                480000, 5200000, 0.5, 0.5), **options) as file:
        file.write(pixels)
    return path


def random_bands(count, dtype, top):
    return np.random.default_rng(0).integers(
        0, top, (count, 91, 120)).astype(dtype)


def assert_in_place(folder, score, source, expected):
    with rasterio.open(folder / 'geotiff' / score / 'scene.tif') as file, (
            rasterio.open(source)) as given:
        assert file.crs == given.crs == 'EPSG:32633'
        assert file.transform == given.transform
        assert (file.height, file.width) == (91, 120)
        values = file.read(1)
        np.testing.assert_array_equal(
            file.dataset_mask() > 0, given.dataset_mask() > 0)
    np.testing.assert_allclose(values, expected, atol=1e-5)


def test_a_scene_has_the_maps_of_its_array_where_it_lies(inferencer,
                                                         tmp_path):
    bands = random_bands(3, 'uint8', 255)
    path = write(tmp_path / 'scene.tif', bands)
    assert export_maps(
        inferencer, path, tmp_path / 'out', ['geotiff', 'npy', 'gallery'],
        tile=50) == (1, 0)
    expected, = inferencer(bands[::-1].transpose(1, 2, 0).copy())
    for score in SCORES:
        assert_in_place(tmp_path / 'out', score, path, expected.maps[score])
    with rasterio.open(
            tmp_path / 'out/geotiff/prediction/scene.tif') as file:
        assert file.dtypes == ('uint8', ) and file.nodata == 255
        assert (file.read(1) == expected.prediction).mean() > 0.999


@pytest.mark.parametrize('dtype, top', [('uint16', 20000),
                                        ('float32', 20000)])
def test_four_bands_of_any_depth_and_holes(sketch, tmp_path, dtype, top):
    inferencer = four_bands(sketch, tmp_path)
    bands = random_bands(4, dtype, top) + np.array(1, dtype)
    nodata = 0 if dtype == 'uint16' else -9999
    bands[:, 20:50, 60:] = nodata
    path = write(tmp_path / 'scene.tif', bands, nodata=nodata,
                 photometric='RGB')
    export_maps(inferencer, path, tmp_path / 'out', [
        'geotiff', 'csv', 'gallery'], tile=64)
    # As the config's loader reads the whole file.
    expected, = inferencer(write(
        tmp_path / 'filled.tif', np.where(bands == nodata, 0, bands).astype(
            dtype), photometric='RGB'))
    known = (bands != nodata).all(0)
    for score in SCORES:
        assert_in_place(tmp_path / 'out', score, path, np.where(
            known, expected.maps[score], np.nan))
    with rasterio.open(
            tmp_path / 'out/geotiff/prediction/scene.tif') as file:
        assert (file.read(1) == 255).sum() == (~known).sum() > 0


def test_other_bands_than_the_model_wants_are_a_sentence(sketch, inferencer,
                                                         tmp_path):
    path = write(tmp_path / 'scene.tif', random_bands(3, 'uint16', 9000),
                 photometric='RGB')
    four = four_bands(sketch, tmp_path)
    for form, tile in (('geotiff', 64), ('npy', None)):
        with pytest.raises(ValueError, match="gives 3 channels of 'scene', "
                           'but the model takes 4'):
            export_maps(four, path, tmp_path / form, [form], tile=tile)
    assert not list(tmp_path.glob('*/*/*/scene.*'))


def test_six_bands_by_tifffile(sketch, tmp_path):
    pytest.importorskip('tifffile')
    inferencer = four_bands(sketch, tmp_path, bands=6,
                            imdecode_backend='tifffile')
    bands = random_bands(6, 'uint16', 20000)
    path = write(tmp_path / 'scene.tif', bands)
    export_maps(inferencer, path, tmp_path / 'out', ['geotiff'], tile=64)
    expected, = inferencer(bands.transpose(1, 2, 0).copy())
    for score in SCORES:
        assert_in_place(tmp_path / 'out', score, path, expected.maps[score])


def test_what_the_loader_cannot_read_is_named_as_the_scene(sketch, tmp_path):
    """Not as the temporary file of a window."""
    path = write(tmp_path / 'scene.tif', random_bands(6, 'uint16', 9000))
    four = four_bands(sketch, tmp_path)
    with pytest.raises(ValueError, match=f'{path}.* cannot be decoded'):
        export_maps(four, path, tmp_path / 'out', ['geotiff'], tile=64)
    assert not list((tmp_path / 'out').rglob('*.tif'))


def test_a_hole_in_one_band_does_not_spread(sketch, tmp_path):
    """The network gets 0 there, not NaN or the number that means no data."""
    inferencer = four_bands(sketch, tmp_path)
    bands = random_bands(4, 'float32', 20000) + 1
    maps = []
    for number, hole in enumerate([0, np.nan, -1e20]):
        bands[1, 30:40, 50:60] = hole
        path = write(tmp_path / 'scene.tif', bands, nodata=-1e20)
        export_maps(inferencer, path, tmp_path / str(number), ['geotiff'],
                    tile=64)
        with rasterio.open(
                tmp_path / str(number) / 'geotiff/entropy/scene.tif') as file:
            maps.append(file.read(1))
    assert np.isfinite(maps[0]).all()
    for other in maps[1:]:
        np.testing.assert_array_equal(other, maps[0])


def test_nothing_is_said_about_every_window(inferencer, tmp_path, capfd):
    """OpenCV warns of the tags of a GeoTIFF."""
    path = write(tmp_path / 'scene.tif', random_bands(3, 'uint8', 255))
    export_maps(inferencer, path, tmp_path / 'out', ['geotiff'], tile=64)
    assert 'TIFF' not in capfd.readouterr().err


def test_a_truncated_raster_is_a_sentence_and_others_stay(inferencer,
                                                          tmp_path):
    (tmp_path / 'in').mkdir()
    write(tmp_path / 'in' / 'a.tif', random_bands(3, 'uint8', 255))
    path = write(tmp_path / 'in' / 'b.tif', random_bands(3, 'uint8', 255))
    path.write_bytes(path.read_bytes()[:20000])
    with pytest.raises(ValueError, match='b.tif cannot be read; it is '
                       'truncated'):
        export_maps(inferencer, tmp_path / 'in', tmp_path / 'out',
                    ['geotiff'], tile=50)
    left = sorted(p.name for p in (tmp_path / 'out').rglob('*.tif'))
    assert left == ['a.tif'] * 3


def test_without_tiles_it_says_so(inferencer, tmp_path):
    path = write(tmp_path / 'scene.tif', random_bands(3, 'uint8', 255))
    with pytest.raises(ValueError, match="'geotiff' is written window by "
                       'window: add --tile'):
        export_maps(inferencer, path, tmp_path / 'out', ['geotiff'])
