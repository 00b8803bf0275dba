"""A folder has the maps of one model, of the images as they are now."""
import json
import os
import time
from contextlib import suppress
from threading import Thread

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import ConfigDict
from results import contents
from sketches import abnn_config, config

from abnn_mmseg.export import ABNNInferencer, export_maps
from abnn_mmseg.export.fingerprint import model_fingerprint
from abnn_mmseg.export.writers import NpyWriter
from abnn_mmseg.export.writers.tiles import TileFile
from abnn_mmseg.utils.files import HOST, read_lines

FORMATS = ['npy', 'csv', 'gallery']
NO_PROCESS = 2**22 + 1


@pytest.fixture(scope='module')
def abnn(sketch, base, tmp_path_factory):
    cfg = abnn_config(sketch, tmp_path_factory.mktemp('work'), base)
    return ABNNInferencer(cfg, str(base), device='cpu',
                          scores=['entropy', 'mutual_information'])


@pytest.fixture(scope='module')
def plain(sketch, base, tmp_path_factory):
    cfg = config(sketch, tmp_path_factory.mktemp('work'))
    return ABNNInferencer(cfg, str(base), device='cpu',
                          scores=['entropy', 'mutual_information'])


@pytest.fixture
def images(tmp_path):
    (tmp_path / 'images').mkdir()
    for number in range(3):
        write(tmp_path / 'images' / f'{number}.png', number)
    return tmp_path / 'images'


def write(path, seed):
    pixels = np.random.default_rng(seed).integers(0, 255, (32, 48, 3))
    cv2.imwrite(str(path), pixels.astype(np.uint8))


def shown(folder):
    page = (folder / 'gallery/index.html').read_text()
    data = page.split('id="data"')[1].split('>', 1)[1].split('</script>')[0]
    return [image['name'] for image in json.loads(data)['images']]


def ranked(folder):
    lines = (folder / 'csv/entropy.csv').read_text().splitlines()[1:]
    return sorted(line.split(',')[1] for line in lines)


def test_another_model_is_refused(abnn, plain, images, tmp_path):
    export_maps(abnn, images, tmp_path / 'out', FORMATS, limit=2)
    for resume in (True, False):
        with pytest.raises(FileExistsError,
                           match=r'another model .*\(model\).*--overwrite'):
            export_maps(plain, images, tmp_path / 'out', FORMATS,
                        resume=resume)
    assert export_maps(abnn, images, tmp_path / 'out', FORMATS,
                       resume=True) == (1, 2)
    assert shown(tmp_path / 'out') == ranked(tmp_path / 'out') == [
        '0', '1', '2']


def test_other_settings_are_refused_by_name(abnn, images, tmp_path):
    export_maps(abnn, images, tmp_path / 'out')
    with pytest.raises(FileExistsError, match=r'\(dtype, threshold\)'):
        export_maps(abnn, images, tmp_path / 'out', dtype='float16',
                    threshold=0.5, resume=True)


def test_overwrite_leaves_nothing_of_the_other_model(abnn, plain, images,
                                                     tmp_path):
    export_maps(abnn, images, tmp_path / 'out', FORMATS)
    (tmp_path / 'out' / 'notes.txt').write_text('of the user')
    export_maps(plain, images, tmp_path / 'out', ['npy', 'gallery'], limit=1,
                overwrite=True)
    assert shown(tmp_path / 'out') == ['0']
    left = sorted(path.relative_to(tmp_path / 'out').as_posix()
                  for path in (tmp_path / 'out').rglob('*')
                  if path.is_file() and 'gallery' not in path.parts)
    assert left == ['export.json', 'export.rank0.jsonl', 'notes.txt',
                    'npy/entropy/0.npy', 'npy/mutual_information/0.npy']
    assert not np.load(
        tmp_path / 'out/npy/mutual_information/0.npy').any()
    assert [path.name for path in (
        tmp_path / 'out/gallery').rglob('*.js')] == ['0.js']


def test_overwrite_removes_half_written_images_too(abnn, plain, images,
                                                   tmp_path, monkeypatch):
    """A killed run has written maps of an image, but not noted it."""
    out = tmp_path / 'out'
    with monkeypatch.context() as patch:
        patch.setattr('abnn_mmseg.export.writers.journal.JournalWriter.save',
                      fail)
        with pytest.raises(OSError, match='killed'):
            export_maps(abnn, images, out, ['npy', 'csv'])
    assert list((out / 'npy/entropy').glob('*.npy'))
    for path in images.iterdir():
        path.unlink()
    write(images / 'other.png', 7)
    export_maps(plain, images, out, ['npy', 'csv'], overwrite=True)
    assert [path.name for path in (out / 'npy/entropy').iterdir()] == [
        'other.npy']


def fail(*_):
    raise OSError('killed')


def test_an_image_that_changed_is_made_again(abnn, images, tmp_path):
    export_maps(abnn, images, tmp_path / 'out', FORMATS)
    before = np.load(tmp_path / 'out/npy/entropy/1.npy')
    write(images / '1.png', 9)
    os.utime(images / '1.png', ns=(0, 1))
    # Another format first: that of the others is still of the old image.
    assert export_maps(abnn, images, tmp_path / 'out', ['npy'],
                       resume=True) == (1, 2)
    assert (np.load(tmp_path / 'out/npy/entropy/1.npy') != before).any()
    assert export_maps(abnn, images, tmp_path / 'out', FORMATS,
                       resume=True) == (1, 2)
    export_maps(abnn, images, tmp_path / 'fresh', FORMATS)
    for name in ('csv/entropy.csv', 'gallery/data/1.js'):
        assert (tmp_path / 'out' / name).read_bytes() == (
            tmp_path / 'fresh' / name).read_bytes()


def test_an_image_with_the_size_and_time_of_the_old_one_is_made_again(
        abnn, tmp_path):
    images = tmp_path / 'images'
    images.mkdir()
    for seed in (0, 1):
        # Archives may store one time for all files.
        write(images / '0.bmp', seed)
        os.utime(images / '0.bmp', (1, 1))
        assert export_maps(
            abnn, images, tmp_path / 'out', resume=True) == (1, 0)
    # The same image at another time is the same.
    os.utime(images / '0.bmp', (2, 2))
    assert export_maps(abnn, images, tmp_path / 'out', resume=True) == (0, 1)


def test_rows_of_a_clock_that_went_back_count(abnn, images, tmp_path,
                                              monkeypatch):
    now = time.time
    monkeypatch.setattr(time, 'time', lambda: now() + 10000)
    export_maps(abnn, images, tmp_path / 'out', FORMATS)
    monkeypatch.setattr(time, 'time', now)
    write(images / '1.png', 9)
    for done in ((1, 2), (0, 3)):
        assert export_maps(abnn, images, tmp_path / 'out', FORMATS,
                           resume=True) == done
    export_maps(abnn, images, tmp_path / 'fresh', FORMATS)
    assert (tmp_path / 'out/csv/entropy.csv').read_bytes() == (
        tmp_path / 'fresh/csv/entropy.csv').read_bytes()


def test_a_run_stops_when_another_takes_its_folder(abnn, plain, images,
                                                   tmp_path, monkeypatch):
    predict, seen = abnn.predict, []

    def disturbed(data):
        seen.append(0)
        if len(seen) == 2:
            # Threads write the first image.
            while not (tmp_path / 'out/export.rank0.jsonl').exists():
                time.sleep(0.01)
            export_maps(plain, images, tmp_path / 'out', ['npy', 'csv'],
                        overwrite=True)
        return predict(data)

    monkeypatch.setattr(abnn, 'predict', disturbed)
    with pytest.raises(FileExistsError, match='another run has replaced'):
        export_maps(abnn, images, tmp_path / 'out', ['npy', 'csv'],
                    overwrite=True)
    assert export_maps(plain, images, tmp_path / 'out', ['npy', 'csv'],
                       resume=True) == (0, 3)
    export_maps(plain, images, tmp_path / 'fresh', ['npy', 'csv'])
    for name in ('npy/entropy/1.npy', 'npy/entropy/2.npy',
                 'csv/entropy.csv'):
        assert (tmp_path / 'out' / name).read_bytes() == (
            tmp_path / 'fresh' / name).read_bytes()


@pytest.mark.skipif(os.name != 'posix', reason='no locks of folders')
def test_a_run_takes_a_folder_between_two_images(abnn, plain, images,
                                                 tmp_path, monkeypatch):
    """Not while one is written, which would be among the new files."""
    encode, second = NpyWriter.encode, []

    def disturbed(self, result, score):
        """The second run starts when the first image is half written."""
        if not second:
            second.append(Thread(target=export_maps, args=(
                plain, images, tmp_path / 'out'), kwargs=dict(
                    overwrite=True, limit=1)))
            second[0].start()
            second[0].join(2)
        return encode(self, result, score)

    monkeypatch.setattr(NpyWriter, 'encode', disturbed)
    # All three may be written before the second run has its turn.
    with suppress(FileExistsError):
        export_maps(abnn, images, tmp_path / 'out')
    second[0].join()
    export_maps(plain, images, tmp_path / 'fresh', limit=1)
    assert contents(tmp_path / 'out/npy') == contents(tmp_path / 'fresh/npy')


def test_tiles_do_not_come_into_the_folder_of_another_run(
        abnn, plain, images, tmp_path, monkeypatch):
    slide = ConfigDict(mode='slide', crop_size=(32, 48), stride=(32, 48))
    for inferencer in (abnn, plain):
        monkeypatch.setattr(inferencer.model, 'test_cfg', slide)
    put, runs = TileFile.put, 0

    def disturbed(self, *region):
        """The second run comes and goes in the middle of the first."""
        nonlocal runs
        runs += 1
        if runs == 1:
            export_maps(plain, images / '1.png', tmp_path / 'out', tile=32,
                        overwrite=True)
        return put(self, *region)

    monkeypatch.setattr(TileFile, 'put', disturbed)
    with pytest.raises(FileExistsError, match='another run has replaced'):
        export_maps(abnn, images / '1.png', tmp_path / 'out', tile=32)
    export_maps(plain, images / '1.png', tmp_path / 'fresh', tile=32)
    assert contents(tmp_path / 'out/npy') == contents(tmp_path / 'fresh/npy')


def test_names_need_not_be_unicode(abnn, images, tmp_path):
    name = os.fsencode(images) + b'/caf\xe9.png'
    try:
        os.rename(os.fsencode(images / '1.png'), name)
    except OSError:
        pytest.skip('this file system knows Unicode only')
    export_maps(abnn, images, tmp_path / 'out', FORMATS)
    assert b'caf\xe9' in (tmp_path / 'out/csv/entropy.csv').read_bytes()


def test_a_file_that_was_removed_is_made_again(abnn, images, tmp_path):
    export_maps(abnn, images, tmp_path / 'out')
    (tmp_path / 'out/npy/entropy/1.npy').unlink()
    assert export_maps(
        abnn, images, tmp_path / 'out', resume=True) == (1, 2)


@pytest.mark.parametrize('name', [
    'npy/entropy/1.npy', 'gallery/data/1.js', 'gallery/images/1.jpg'])
def test_a_file_that_was_cut_is_made_again(abnn, images, tmp_path, name):
    export_maps(abnn, images, tmp_path / 'out', FORMATS)
    path = tmp_path / 'out' / name
    whole = path.read_bytes()
    for rest in (whole[:-1], b''):
        path.write_bytes(rest)
        assert export_maps(abnn, images, tmp_path / 'out', FORMATS,
                           resume=True) == (1, 2)
        assert path.read_bytes() == whole


def test_a_record_without_sizes_is_resumed(abnn, images, tmp_path):
    """Such as one of an earlier version."""
    export_maps(abnn, images, tmp_path / 'out', FORMATS)
    journal = tmp_path / 'out/export.rank0.jsonl'
    lines = read_lines([journal])
    for line in lines:
        line.pop('sizes', None)
    journal.write_text('\n'.join(map(json.dumps, lines)))
    (tmp_path / 'out/npy/entropy/1.npy').unlink()
    assert export_maps(abnn, images, tmp_path / 'out', FORMATS,
                       resume=True) == (1, 2)


def test_a_damaged_record_is_said(abnn, images, tmp_path):
    (tmp_path / 'out').mkdir()
    for content in (b'[]', b'{"settings": null}', b'\xff{}'):
        (tmp_path / 'out/export.json').write_bytes(content)
        with pytest.raises(ValueError, match='export.json is damaged'):
            export_maps(abnn, images, tmp_path / 'out', ['npy'], resume=True)


def test_files_that_are_not_on_record_are_not_trusted(abnn, images,
                                                      tmp_path):
    path = tmp_path / 'out/npy/entropy/0.npy'
    path.parent.mkdir(parents=True)
    np.save(path, np.zeros(3))
    with pytest.raises(FileExistsError, match='0.npy.*exists'):
        export_maps(abnn, images, tmp_path / 'out', resume=True)


def test_methods_of_a_benchmark_share_a_folder(abnn, plain, images,
                                               tmp_path):
    pytest.importorskip('h5py')
    for model, method in [(abnn, 'ABNN'), (plain, 'base')]:
        assert export_maps(model, images, tmp_path / 'out', ['hdf5'],
                           method=method) == (3, 0)
    assert export_maps(abnn, images, tmp_path / 'out', ['hdf5'],
                       method='ABNN', resume=True) == (0, 3)


def test_leftovers_of_dead_processes_go(abnn, images, tmp_path):
    left = tmp_path / 'out/npy' / f'.{HOST}-{NO_PROCESS}-abcd.tmp-x.npy'
    left.parent.mkdir(parents=True)
    left.write_bytes(b'half')
    export_maps(abnn, images, tmp_path / 'out')
    assert not left.exists()


def test_the_fingerprint_is_that_of_weights_and_settings(sketch, base,
                                                         tmp_path):
    def make():
        return ABNNInferencer(
            abnn_config(sketch, tmp_path, base), str(base), device='cpu')

    first, inferencer = model_fingerprint(make()), make()
    assert model_fingerprint(inferencer) == first
    posterior = inferencer.model.posterior
    posterior.draws_per_pass = 1
    assert model_fingerprint(inferencer) == first
    posterior.seed = 7
    second = model_fingerprint(inferencer)
    inferencer.model.backbone.conv1.weight.data[0] += 1
    third = model_fingerprint(inferencer)
    posterior.views = dict(flips='horizontal')
    fourth = model_fingerprint(inferencer)
    posterior.set_members([{'backbone.bn1.bias': torch.ones(8)}])
    assert len({first, second, third, fourth,
                model_fingerprint(inferencer)}) == 5


def test_maps_among_the_images_are_no_inputs(abnn, images):
    for _ in range(2):
        done = export_maps(abnn, images, images / 'maps', ['overlay'],
                           resume=True)
        assert sum(done) == 3
    assert len(list((images / 'maps').rglob('*.png'))) == 2 * 3


def test_maps_among_the_images_are_none_through_a_link(abnn, images,
                                                       tmp_path):
    (tmp_path / 'link').symlink_to(images)
    for _ in range(2):
        done = export_maps(abnn, tmp_path / 'link', images / 'maps',
                           ['overlay'], resume=True, limit=10**30)
        assert sum(done) == 3


def test_maps_may_lie_beside_the_images(abnn, images):
    for _ in range(2):
        done = export_maps(abnn, images, images, ['overlay'], resume=True)
        assert sum(done) == 3
    done = export_maps(abnn, images / '0.png', images, ['npy'],
                       overwrite=True)
    assert done == (1, 0)


@pytest.mark.parametrize('content, message', [
    ('garbage', 'export.json is damaged'), ('[]', 'no settings are in it')])
def test_a_damaged_record_is_named(abnn, images, tmp_path, content, message):
    (tmp_path / 'out').mkdir()
    (tmp_path / 'out/export.json').write_text(content)
    with pytest.raises(ValueError, match=message):
        export_maps(abnn, images, tmp_path / 'out')


def test_a_damaged_journal_costs_its_lines_only(abnn, images, tmp_path):
    export_maps(abnn, images, tmp_path / 'out')
    with open(tmp_path / 'out/export.rank0.jsonl', 'a') as journal:
        journal.write('garbage\n[1]\n{"image": "0"}\n{"half": \n')
    assert export_maps(abnn, images, tmp_path / 'out', resume=True) == (0, 3)


@pytest.mark.parametrize('options, message', [
    (dict(limit=0), 'limit=0 leaves no image'),
    (dict(limit=-1), 'limit=-1 leaves no image'),
    (dict(formats=[]), 'formats is empty')])
def test_an_export_of_nothing_is_refused(abnn, images, tmp_path, options,
                                         message):
    with pytest.raises(ValueError, match=message):
        export_maps(abnn, images, tmp_path / 'out', **options)
    assert not (tmp_path / 'out').exists()


def test_a_file_is_no_output_folder(abnn, images, tmp_path):
    (tmp_path / 'file').write_text('mine')
    with pytest.raises(NotADirectoryError, match='is a file; name a folder'):
        export_maps(abnn, images, tmp_path / 'file')
    assert (tmp_path / 'file').read_text() == 'mine'
