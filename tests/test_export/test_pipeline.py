"""Files are read as the config says, arrays as they are."""
import sys

import cv2
import numpy as np
import pytest
import torch
from mmseg.registry import TRANSFORMS
from sketches import config
from toys import build, toy_config

from abnn_mmseg.export import ABNNInferencer, export_maps
from abnn_mmseg.export.pipeline import Pipeline, to_rgb


def make(sketch, tmp_path, channels=3, **loader):
    """The base alone, with another loader and number of channels."""
    cfg = config(sketch, tmp_path)
    cfg.test_dataloader.dataset.pipeline[0].update(loader)
    cfg.model.backbone.in_channels = channels
    if channels != 3:
        cfg.model.data_preprocessor.update(mean=[9.], std=[30.])
        cfg.model.data_preprocessor.bgr_to_rgb = False
    network = toy_config(auxiliary=False)
    network['decode_head']['num_classes'] = 15
    network['backbone']['in_channels'] = channels
    torch.save(build(network).state_dict(), tmp_path / 'base.pth')
    return ABNNInferencer(cfg, str(tmp_path / 'base.pth'), device='cpu')


def random(*shape, high=255, dtype=np.uint8):
    return np.random.default_rng(0).integers(0, high, shape).astype(dtype)


def test_16_bit_files_keep_their_values(sketch, tmp_path):
    pixels = random(32, 48, 3, high=2000, dtype=np.uint16)
    cv2.imwrite(str(tmp_path / 'deep.png'), pixels)
    inferencer = make(sketch, tmp_path, color_type='unchanged',
                      to_float32=True)
    loaded = inferencer(tmp_path / 'deep.png')[0]
    given = inferencer(pixels)[0]
    np.testing.assert_array_equal(loaded.maps['entropy'],
                                  given.maps['entropy'])
    eight = make(sketch, tmp_path)(tmp_path / 'deep.png')[0]
    assert (eight.maps['entropy'] != given.maps['entropy']).any()
    assert loaded.image.dtype == np.uint8 and np.ptp(loaded.image) == 255


@pytest.mark.parametrize('channels', [1, 4])
def test_models_of_other_channels_take_files_and_arrays(sketch, tmp_path,
                                                        channels):
    pixels = random(32, 48, channels)
    cv2.imwrite(str(tmp_path / 'image.png'), pixels)
    np.save(tmp_path / 'array.npy', pixels)
    inferencer = make(sketch, tmp_path, channels, color_type='unchanged')
    maps = [inferencer(given)[0].maps['entropy'] for given in (
        tmp_path / 'image.png', tmp_path / 'array.npy', pixels)]
    np.testing.assert_array_equal(maps[0], maps[1])
    np.testing.assert_array_equal(maps[0], maps[2])
    done = export_maps(inferencer, tmp_path / 'image.png', tmp_path / 'out',
                       ['npy', 'overlay'])
    assert done == (1, 0)


def test_the_backend_of_the_config_reads(sketch, tmp_path):
    cv2.imwrite(str(tmp_path / 'image.png'), random(32, 48, 3))
    inferencer = make(sketch, tmp_path, imdecode_backend='no such backend')
    with pytest.raises(ValueError, match='no such backend'):
        inferencer(tmp_path / 'image.png')


def test_a_missing_backend_is_a_sentence(sketch, tmp_path, monkeypatch):
    cv2.imwrite(str(tmp_path / 'image.tif'), random(32, 48, 3))
    inferencer = make(sketch, tmp_path, imdecode_backend='tifffile')
    monkeypatch.setitem(sys.modules, 'tifffile', None)
    with pytest.raises(ImportError, match='pip install tifffile'):
        inferencer(tmp_path / 'image.tif')


@TRANSFORMS.register_module(force=True)
class VoidTo255:
    """A user's own step on the labels."""

    def __call__(self, results):
        results['gt_seg_map'][results['gt_seg_map'] == 11] = 255
        return results


def test_own_steps_on_labels_are_left_out_where_there_are_none(
        sketch, tmp_path):
    cfg = config(sketch, tmp_path)
    steps = cfg.test_dataloader.dataset.pipeline
    expected = Pipeline(steps, 3).load_array('a', random(32, 48, 3))
    steps.insert(-1, dict(type='VoidTo255'))
    loaded = Pipeline(steps, 3).load_array('a', random(32, 48, 3))
    assert torch.equal(loaded.data['inputs'], expected.data['inputs'])
    steps[-2] = dict(type='Broken')
    with pytest.raises(KeyError, match='no_such_key'):
        Pipeline(steps, 3).load_array('a', random(32, 48, 3))


@TRANSFORMS.register_module(force=True)
class Broken:
    """A step with a mistake."""

    def __call__(self, results):
        return results['no_such_key']


def test_pictures_of_8_bit_images_are_the_images():
    pixels = random(8, 9, 3)
    for given in (pixels, pixels.astype(np.float32),
                  np.dstack([pixels, pixels[..., 0]])):
        np.testing.assert_array_equal(to_rgb(given), pixels[..., ::-1])
    grey = pixels[..., 0]
    for given in (grey, grey[..., None]):
        np.testing.assert_array_equal(to_rgb(given), np.dstack([grey] * 3))


def test_other_pictures_span_all_of_8_bits():
    pixels = random(20, 30, 3, high=60000, dtype=np.uint16)
    picture = to_rgb(pixels)
    low, high = np.percentile(pixels, (1, 99))
    expected = ((pixels[..., ::-1] - low) / (high - low) * 255).clip(0, 255)
    np.testing.assert_allclose(picture, expected, atol=1.01)
    broken = np.full((4, 4, 3), np.nan, np.float32)
    assert to_rgb(broken).max() == 0
