"""Images that are none, or not what a network expects."""
import io
import struct
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image
from sketches import abnn_config

from abnn_mmseg.datasets.transforms import read_image
from abnn_mmseg.export import ABNNInferencer, Frames
from abnn_mmseg.export.inputs import read_bgr
from abnn_mmseg.export.pipeline import Pipeline

PIXELS = np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8)


def encoded(suffix, pixels=PIXELS):
    return cv2.imencode(suffix, pixels)[1].tobytes()


def enormous():
    """A PNG of a few bytes that claims 200,000 x 200,000 pixels."""

    def chunk(kind, data):
        return (struct.pack('>I', len(data)) + kind + data +
                struct.pack('>I', zlib.crc32(kind + data)))

    header = struct.pack('>IIBBBBB', 200_000, 200_000, 8, 2, 0, 0, 0)
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', header) +
            chunk(b'IDAT', zlib.compress(bytes(100))) + chunk(b'IEND', b''))


def saved(mode, suffix='png'):
    buffer = io.BytesIO()
    grey = Image.fromarray(PIXELS[..., 0])
    image = dict(
        L=grey, LA=grey.convert('LA'), P=grey.convert('P'),
        CMYK=Image.fromarray(PIXELS).convert('CMYK'),
        RGBA=Image.fromarray(PIXELS).convert('RGBA'),
        I16=Image.fromarray(PIXELS[..., 0].astype(np.uint16) * 257))[mode]
    image.save(buffer, suffix)
    return buffer.getvalue()


BROKEN = {
    'zero.png': b'',
    'truncated.png': encoded('.png')[:-400],
    'header_only.jpg': encoded('.jpg')[:30],
    'text.png': b'this is no image',
    'noise.jpg': bytes(range(256)) * 4,
    'enormous.png': enormous(),
}


@pytest.mark.parametrize('name', BROKEN)
def test_a_broken_image_is_named_by_the_inferencer(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(BROKEN[name])
    frame = next(iter(Frames(path)))
    pipeline = Pipeline([dict(type='LoadImageFromFile')], 3)
    for read in (read_bgr, pipeline.load):
        with pytest.raises(ValueError,
                           match=f'{name} cannot be decoded; it is'):
            read(frame)


@pytest.mark.parametrize('name', BROKEN)
def test_a_broken_image_is_named_by_the_dataset(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(BROKEN[name])
    with pytest.raises(OSError, match=f'Cannot read image .*{name}.*again'):
        read_image(str(path))


@pytest.mark.parametrize('mode, suffix', [
    ('L', 'png'), ('LA', 'png'), ('P', 'png'), ('RGBA', 'png'),
    ('I16', 'png'), ('CMYK', 'jpeg')])
def test_grey_palette_alpha_16_bit_and_cmyk_become_8_bit_bgr(
        tmp_path, mode, suffix):
    path = tmp_path / f'image.{suffix}'
    path.write_bytes(saved(mode, suffix))
    image = read_bgr(next(iter(Frames(path))))
    assert image.shape == PIXELS.shape and image.dtype == np.uint8
    if mode in ('L', 'LA', 'I16'):
        np.testing.assert_allclose(image[..., 0], PIXELS[..., 0], atol=1)


@pytest.mark.parametrize('array', [
    PIXELS[..., 0], PIXELS > 9, PIXELS.astype(complex), PIXELS[:0]
], ids=['grey', 'bool', 'complex', 'empty'])
def test_an_array_that_is_no_image_is_described(array):
    with pytest.raises(ValueError, match=r'the array is .*give \[H, W, C\]'):
        Frames(array)


@pytest.mark.parametrize('array', [
    PIXELS[..., :2], np.dstack([PIXELS, PIXELS[..., 0]])
], ids=['two channels', 'alpha'])
def test_an_array_of_other_channels_than_the_models_is_described(array):
    pipeline = Pipeline([dict(type='LoadImageFromFile')], 3)
    with pytest.raises(ValueError, match=r'model takes \[H, W, 3\]; give'):
        pipeline.load(next(iter(Frames(array))))


@pytest.mark.parametrize('make, error, message', [
    (lambda f: f / 'nowhere.png', FileNotFoundError,
     'nowhere.png does not exist and matches no file; give an image'),
    (lambda f: f'{f}/*.bmp', FileNotFoundError, 'matches no file'),
    (lambda f: f, FileNotFoundError, 'no image in .*Images end in'),
    (lambda f: [], FileNotFoundError, 'no image in'),
])
def test_an_input_without_images_is_said(tmp_path, make, error, message):
    (tmp_path / 'notes.txt').write_text('no image')
    with pytest.raises(error, match=message):
        Frames(make(tmp_path))


def test_two_images_of_one_name_are_refused(tmp_path):
    for name in ('a.png', 'a.jpg'):
        (tmp_path / name).write_bytes(encoded(name[1:]))
    with pytest.raises(ValueError, match="share the output name 'a'; rename"):
        Frames(tmp_path)


def test_a_video_without_frames_is_refused(tmp_path):
    path = tmp_path / 'drive.mp4'
    path.write_bytes(b'')
    with pytest.raises(ValueError, match='drive.mp4 holds no frame'):
        list(Frames(path))


def test_a_video_among_images_is_refused(tmp_path):
    (tmp_path / 'drive.mp4').write_bytes(b'')
    with pytest.raises(ValueError, match='is a video; give it alone'):
        Frames([tmp_path / 'drive.mp4', PIXELS])


def test_one_pixel_is_an_image(sketch, base, tmp_path):
    inferencer = ABNNInferencer(
        abnn_config(sketch, tmp_path, base), str(base), device='cpu')
    [result] = inferencer(PIXELS[:1, :1])
    assert result.prediction.shape == (1, 1)
    assert all(np.isfinite(map_).all() for map_ in result.maps.values())
