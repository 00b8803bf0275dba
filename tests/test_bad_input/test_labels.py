"""Labels and splits that do not fit their images or their protocol."""
import cv2
import numpy as np
import pytest
from mmseg.registry import DATASETS

PIPELINE = [dict(type='LoadImageFromFile'),
            dict(type='LoadAnomalyAnnotations'),
            dict(type='PackAnomalyInputs')]


@pytest.fixture
def muad(tmp_path):
    """A split of one image and its label, 8 x 6."""
    for folder, name in (('leftImg8bit', '0_leftImg8bit.png'),
                         ('leftLabel', '0_leftLabel.png')):
        path = tmp_path / 'train' / folder / name
        path.parent.mkdir(parents=True)
        shape = (6, 8, 3) if 'Img' in folder else (6, 8)
        cv2.imwrite(str(path), np.zeros(shape, np.uint8))
    return tmp_path


def build(root, **options):
    return DATASETS.build(dict(
        dict(type='MUADDataset', data_root=str(root), split='train',
             pipeline=PIPELINE), **options))


def label(root):
    return root / 'train' / 'leftLabel' / '0_leftLabel.png'


def wide(root):
    """Ids beyond a byte."""
    cv2.imwrite(str(label(root)), np.full((6, 8), 300, np.uint16))


BAD_LABELS = {
    'an unknown id': (
        lambda r: cv2.imwrite(str(label(r)), np.full((6, 8), 77, np.uint8)),
        ValueError, '0_leftLabel.png has raw ids .* does not know: 77'),
    'an id beyond a byte': (wide, ValueError, 'does not know: 300'),
    'another size': (
        lambda r: cv2.imwrite(str(label(r)), np.zeros((8, 6), np.uint8)),
        ValueError, 'is 6x8 but its image .* is 8x6'),
    'colours': (
        lambda r: cv2.imwrite(
            str(label(r)), np.arange(144, dtype=np.uint8).reshape(6, 8, 3)),
        ValueError, 'is a colour image; labels must hold one id a pixel'),
    'no byte': (
        lambda r: label(r).write_bytes(b''), OSError,
        'Cannot read label .*0_leftLabel.png'),
    'half a file': (
        lambda r: label(r).write_bytes(label(r).read_bytes()[:50]), OSError,
        'Cannot read label .*Download or copy it again'),
}


@pytest.mark.parametrize('case', BAD_LABELS)
def test_a_bad_label_is_named(muad, case):
    spoil, error, message = BAD_LABELS[case]
    spoil(muad)
    with pytest.raises(error, match=message):
        build(muad)[0]


def rename(root, folder, name):
    [path] = (root / 'train' / folder).iterdir()
    path.rename(path.with_name(name))


BAD_SETS = {
    'no label for an image': (
        lambda r: rename(r, 'leftLabel', '1_leftLabel.png'), {}, ValueError,
        'do not match in 2 cases:\n  image without label: .*0_leftImg8bit'),
    'no label at all': (
        lambda r: label(r).unlink(), {}, FileNotFoundError,
        'MUADDataset: no file .*leftLabel'),
    'no image at all': (
        lambda r: (r / 'train/leftImg8bit/0_leftImg8bit.png').unlink(), {},
        FileNotFoundError, 'MUADDataset: no file .*leftImg8bit'),
    'no folder': (
        lambda r: None, dict(split='val'), FileNotFoundError,
        "no folder 'val/leftImg8bit' in data_root"),
    'an unknown split': (
        lambda r: None, dict(split='trian'), ValueError,
        "split='trian' is unknown; did you mean 'train'"),
    'an unknown protocol': (
        lambda r: None, dict(protocol='18'), ValueError,
        "protocol='18' is unknown; did you mean '1[59]'.*15, 19"),
    'classes of another protocol': (
        lambda r: None, dict(metainfo=dict(classes=('a', 'b'))), ValueError,
        'contradicts the label protocol .*choose the protocol instead'),
    'an empty list': (
        lambda r: (r / 'list.txt').write_text('\n'),
        dict(ann_file='list.txt'), ValueError, 'list.txt names no image'),
    'a list of strangers': (
        lambda r: (r / 'list.txt').write_text('7\n'),
        dict(ann_file='list.txt'), ValueError,
        "no image for listed name '7'"),
    'no list': (
        lambda r: None, dict(ann_file='list.txt'), FileNotFoundError,
        "no list file 'list.txt' in data_root"),
}


@pytest.mark.parametrize('case', BAD_SETS)
def test_a_bad_split_is_said_when_the_dataset_is_built(muad, case):
    spoil, options, error, message = BAD_SETS[case]
    spoil(muad)
    with pytest.raises(error, match=message):
        build(muad, **options)


PROTOCOL = dict(name='mine', classes=('a', 'b'), ids=(0, 1),
                palette=[(0, 0, 0), (1, 1, 1)], ood=(2, ))


@pytest.mark.parametrize('change, message', [
    (dict(ood=(1, )), 'gives two meanings to raw id 1; keep one'),
    (dict(ood=(256, )), 'raw id 256 is outside 0..255'),
    (dict(ids=(0, )), 'has 2 classes but 1 ids; give one per class'),
])
def test_a_protocol_that_contradicts_itself_is_refused(muad, change, message):
    with pytest.raises(ValueError, match=message):
        build(muad, type='AnomalySegDataset', split=None,
              labels=dict(PROTOCOL, **change))
