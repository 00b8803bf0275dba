"""A NIfTI volume comes out where it came in, slice by slice."""
import numpy as np
import pytest
from sketches import abnn_config

from abnn_mmseg.export import ABNNInferencer, Frames, export_maps
from abnn_mmseg.export.volumes import Slice

nibabel = pytest.importorskip('nibabel')
SHAPE = 48, 32, 5
# Turned, scaled and shifted, as scanners have it.
AFFINE = np.array([[0, -0.75, 0, 90], [0.75, 0, 0, -12], [0, 0, 3, 5],
                   [0, 0, 0, 1.]])


@pytest.fixture(scope='module')
def inferencer(sketch, base, tmp_path_factory):
    cfg = abnn_config(sketch, tmp_path_factory.mktemp('work'), base)
    return ABNNInferencer(cfg, str(base), device='cpu', scores=['entropy'])


def write(path, voxels, kind=nibabel.Nifti1Image, **header):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = kind(voxels, AFFINE)
    image.header.set_xyzt_units('mm')
    for key, value in header.items():
        image.header[key] = value
    image.to_filename(path)
    return path


def voxels(dtype='int16', shape=SHAPE):
    return np.random.default_rng(0).integers(0, 255, shape).astype(dtype)


def read(path):
    image = nibabel.load(path)
    np.testing.assert_array_equal(image.affine, AFFINE)
    assert image.header.get_xyzt_units()[0] == 'mm'
    return np.asarray(image.dataobj)


def expected_maps(inferencer, values):
    """Of its slices as arrays, joined as the volume is."""
    results = inferencer([
        values[:, :, k].T[..., None].repeat(3, -1).astype(np.float32)
        for k in range(values.shape[2])])
    return {plane: np.stack([of(result).T for result in results], -1)
            for plane, of in dict(
                entropy=lambda result: result.maps['entropy'],
                prediction=lambda result: result.prediction).items()}


@pytest.mark.parametrize('name, dtype', [
    ('scan.nii.gz', 'int16'), ('scan.nii', 'float32'),
    ('scan.nii.gz', '>i2'), ('scan.nii.gz', 'uint8')])
def test_a_volume_has_the_maps_of_its_slices_where_it_lies(
        inferencer, tmp_path, name, dtype):
    values = voxels(dtype)
    path = write(tmp_path / name, values)
    assert export_maps(inferencer, path, tmp_path / 'out',
                       ['nifti', 'gallery']) == (5, 0)
    expected = expected_maps(inferencer, values)
    found = {plane: read(tmp_path / f'out/nifti/{plane}/scan.nii.gz')
             for plane in expected}
    assert found['entropy'].dtype.name == 'float32'
    assert found['prediction'].dtype.name == 'uint8'
    for plane, wanted in expected.items():
        np.testing.assert_allclose(found[plane], wanted, atol=1e-5)


def test_scaled_values_are_those_that_nibabel_reads(inferencer, tmp_path):
    image = nibabel.Nifti2Image(voxels('int16'), AFFINE)
    image.header.set_slope_inter(0.5, -7)
    image.to_filename(tmp_path / 'scan.nii.gz')
    read_back = nibabel.load(tmp_path / 'scan.nii.gz').get_fdata()
    pixels = Slice(tmp_path / 'scan.nii.gz', 3).pixels(2)
    np.testing.assert_array_equal(pixels[..., 1], read_back[:, :, 3].T)


def test_a_killed_export_resumes_in_shards_to_the_same_volumes(
        inferencer, tmp_path):
    """Slices that nobody predicted are no data until somebody does."""
    write(tmp_path / 'in/a/scan.nii.gz', voxels())
    write(tmp_path / 'in/b.nii', voxels()[..., :2])
    export_maps(inferencer, tmp_path / 'in', tmp_path / 'one', ['nifti'])
    out = tmp_path / 'shards'
    export_maps(inferencer, tmp_path / 'in', out, ['nifti'], limit=2)
    half = read(out / 'nifti/entropy/a/scan.nii.gz')
    assert np.isnan(half[..., 2:]).all() and not np.isnan(half[..., :2]).any()
    assert (read(out / 'nifti/prediction/a/scan.nii.gz')[..., 2:] == 255).all()
    assert [export_maps(
        inferencer, tmp_path / 'in', out, ['nifti'], shard=f'{number}/2')
        for number in (2, 1)] == [(2, 1), (3, 1)]
    for path in (tmp_path / 'one').rglob('*.nii.gz'):
        other = out / path.relative_to(tmp_path / 'one')
        assert path.read_bytes() == other.read_bytes()


def test_a_fourth_axis_holds_the_channels(inferencer, tmp_path):
    values = voxels('uint8', (*SHAPE, 3))
    path = write(tmp_path / 'scan.nii.gz', values)
    result = inferencer(path)[2]
    expected, = inferencer(
        np.ascontiguousarray(values[:, :, 2].swapaxes(0, 1)))
    np.testing.assert_array_equal(
        result.maps['entropy'], expected.maps['entropy'])
    # As a frame is handed to another process.
    frame = Frames(path).files[2]
    again, = inferencer(frame.image)
    np.testing.assert_array_equal(
        again.maps['entropy'], expected.maps['entropy'])


def test_a_volume_of_other_channels_is_a_sentence(inferencer, tmp_path):
    path = write(tmp_path / 'scan.nii.gz', voxels('uint8', (*SHAPE, 2)))
    with pytest.raises(ValueError, match=r'but the model takes \[H, W, 3\]'):
        inferencer(path)


def test_what_is_no_volume_is_a_sentence(inferencer, tmp_path):
    (tmp_path / 'text.nii.gz').write_text('no volume')
    write(tmp_path / 'flat.nii', voxels()[..., 0])
    for name, words in (('text.nii.gz', 'truncated or no NIfTI volume'),
                        ('flat.nii', r'give numbers \[X, Y, Z\]')):
        with pytest.raises(ValueError, match=words):
            inferencer(tmp_path / name)


@pytest.mark.parametrize('name', ['scan.nii', 'scan.nii.gz'])
def test_a_truncated_volume_is_a_sentence_and_the_rest_stays(
        inferencer, tmp_path, name):
    write(tmp_path / 'in/a.nii', voxels()[..., :1])
    path = write(tmp_path / 'in' / name, voxels())
    path.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(ValueError, match=f'{name} cannot be read; it is '
                       'truncated'):
        export_maps(inferencer, tmp_path / 'in', tmp_path / 'out', ['nifti'])
    assert (tmp_path / 'out/nifti/entropy/slices/a_000000.npy').exists()


@pytest.mark.parametrize('options, words', [
    (dict(), 'needs volumes, but val has none'),
    (dict(tile=64), 'leave out --tile')])
def test_nifti_without_volumes_or_in_tiles_is_a_sentence(
        inferencer, tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        export_maps(inferencer, 'val', tmp_path / 'out', ['nifti'], **options)


def test_overwriting_leaves_no_volume_of_another_format(inferencer, tmp_path):
    path = write(tmp_path / 'scan.nii', voxels())
    export_maps(inferencer, path, tmp_path / 'out', ['nifti'])
    export_maps(inferencer, path, tmp_path / 'out', ['npy'], overwrite=True)
    assert not list((tmp_path / 'out').rglob('*.nii.gz'))
