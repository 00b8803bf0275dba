"""Each format gives back what was written; files are never half or lost."""
import csv
import json
import threading
from math import log

import cv2
import numpy as np
import pytest
from PIL import Image

from abnn_mmseg.apis.formats import FORMATS, build_writers
from abnn_mmseg.apis.result import MapResult
from abnn_mmseg.apis.writers import ThreadedWriter, natural_range
from abnn_mmseg.utils.colours import colour_table, colourise

CLASSES = ['road', 'car', 'sky']
PALETTE = [[128, 64, 128], [0, 0, 142], [70, 130, 180]]


def make_result(name='a/b/000012', seed=0, top=1.0986, size=(24, 36)):
    rng = np.random.default_rng(seed)
    return MapResult(
        name,
        prediction=rng.integers(0, 3, size),
        maps={'entropy': rng.uniform(0, top, size).astype(np.float32),
              'energy': rng.normal(0, 9, size).astype(np.float32)},
        image=rng.integers(0, 256, (*size, 3), dtype=np.uint8))


def make_writer(name, folder, scores=('entropy', ), **settings):
    if name == 'mask':
        settings.setdefault('threshold', 0.5)
    return build_writers([name], folder, scores, classes=CLASSES,
                         palette=PALETTE, **settings)[0]


def files(folder):
    return sorted(str(path.relative_to(folder))
                  for path in folder.rglob('*') if path.is_file())


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


def test_csv_ranks_by_uncertainty(tmp_path):
    writer = make_writer('csv', tmp_path, threshold=0.5)
    values = {'low': 0.1, 'high': 0.9, 'middle': 0.4}
    for name, value in values.items():
        result = make_result(name)
        result.maps['entropy'][:] = value
        result.maps['entropy'][:6] = 0.6
        writer.write(result)
    writer.close()
    with open(tmp_path / 'csv/entropy.csv', newline='') as file:
        rows = list(csv.DictReader(file))
    assert [row['image'] for row in rows] == ['high', 'middle', 'low']
    assert [row['rank'] for row in rows] == ['1', '2', '3']
    assert float(rows[2]['mean']) == pytest.approx(0.225)
    assert float(rows[2]['p95']) == pytest.approx(0.6)
    assert float(rows[0]['max']) == pytest.approx(0.9)
    assert [float(row['share_above']) for row in rows] == [1, 0.25, 0.25]


def test_csv_of_a_killed_run_resumes_to_the_same_file(tmp_path):
    results = [make_result(str(seed), seed) for seed in range(4)]
    whole, broken = tmp_path / 'whole', tmp_path / 'broken'
    writer = make_writer('csv', whole)
    for result in results:
        writer.write(result)
    writer.close()
    killed = make_writer('csv', broken)
    killed.write(results[2])
    journal = broken / 'csv/rows.rank0.jsonl'
    journal.write_text(journal.read_text() + '{"image": "3", "ma')
    resumed = make_writer('csv', broken, resume=True)
    assert [resumed.complete(str(seed)) for seed in range(4)] == [
        False, False, True, False]
    for result in results:
        resumed.write(result)
    resumed.close()
    assert ((broken / 'csv/entropy.csv').read_text() ==
            (whole / 'csv/entropy.csv').read_text())


def test_csv_of_two_processes_equals_that_of_one(tmp_path):
    results = [make_result(str(seed), seed) for seed in range(4)]
    one = [make_writer('csv', tmp_path / 'one')]
    two = [make_writer('csv', tmp_path / 'two', rank=rank)
           for rank in (1, 0)]
    for writers in (one, two):
        for index, result in enumerate(results):
            writers[index % len(writers)].write(result)
        for writer in writers:
            writer.close()
    assert ((tmp_path / 'one/csv/entropy.csv').read_text() ==
            (tmp_path / 'two/csv/entropy.csv').read_text())


def test_csv_forgets_images_of_a_run_in_more_processes(tmp_path):
    for rank in (1, 0):
        writer = make_writer('csv', tmp_path, rank=rank)
        writer.write(make_result(f'stale {rank}'))
        writer.close()
    writer = make_writer('csv', tmp_path, overwrite=True)
    writer.write(make_result('new'))
    writer.close()
    assert 'stale' not in (tmp_path / 'csv/entropy.csv').read_text()


@pytest.mark.parametrize('format', FORMATS)
def test_nothing_is_overwritten_unless_told(tmp_path, format):
    if format == 'hdf5':
        pytest.importorskip('h5py')

    def export(**settings):
        writer = make_writer(format, tmp_path, **settings)
        writer.write(make_result())
        writer.close()
        return writer

    export()
    before = {path: path.stat().st_mtime_ns
              for path in tmp_path.rglob('*') if path.is_file()}
    with pytest.raises(FileExistsError, match='--overwrite.*--resume'):
        export()
    assert export(resume=True).complete('a/b/000012')
    assert sorted(before) == [tmp_path / name for name in files(tmp_path)]
    export(overwrite=True)


@pytest.mark.parametrize('format', ['npy', 'npz', 'png16', 'heatmap'])
def test_resume_writes_only_what_is_missing(tmp_path, format):
    writer = make_writer(format, tmp_path)
    writer.write(make_result('0'))
    before = {name: (tmp_path / name).stat().st_mtime_ns
              for name in files(tmp_path)}
    resumed = make_writer(format, tmp_path, resume=True)
    assert resumed.complete('0') and not resumed.complete('1')
    for name in ('0', '1'):
        resumed.write(make_result(name))
    assert len(files(tmp_path)) == 2 * len(before)
    for name, time in before.items():
        assert (tmp_path / name).stat().st_mtime_ns == time


def test_an_image_with_one_map_missing_is_not_complete(tmp_path):
    writer = make_writer('npy', tmp_path, ['entropy', 'energy'], resume=True)
    writer.write(make_result())
    assert writer.complete('a/b/000012')
    (tmp_path / 'npy/energy/a/b/000012.npy').unlink()
    assert not writer.complete('a/b/000012')


def test_names_with_dots_and_odd_map_names_make_files(tmp_path):
    result = make_result('run 1/frame.0001')
    result.maps['base: msp'] = result.maps['entropy']
    make_writer('npy', tmp_path, ['base: msp']).write(result)
    assert files(tmp_path) == ['npy/base-msp/run 1/frame.0001.npy']


def test_maps_whose_names_give_one_folder_are_refused(tmp_path):
    with pytest.raises(ValueError, match='base-msp'):
        make_writer('npy', tmp_path, ['base: msp', 'base-msp'])


@pytest.mark.parametrize('name', ['', '/etc/x', '../x'])
def test_a_name_must_stay_below_the_folder(name):
    with pytest.raises(ValueError, match='below the output folder'):
        make_result(name)


def test_a_map_of_another_size_is_refused():
    with pytest.raises(ValueError, match="map 'msp'"):
        MapResult('0', np.zeros((4, 4), int), {'msp': np.zeros((2, 2))})


def test_a_missing_map_says_which_there_are(tmp_path):
    with pytest.raises(ValueError, match=r"\['energy', 'entropy'\]"):
        make_writer('npy', tmp_path, ['variance']).write(make_result())


def test_an_unknown_format_suggests_the_closest(tmp_path):
    with pytest.raises(ValueError, match="did you mean 'heatmap'"):
        build_writers(['heat_map'], tmp_path, ['entropy'])


def test_threads_write_the_same_files(tmp_path):
    results = [make_result(f'{seed % 2}/{seed}', seed) for seed in range(12)]
    formats = ['npy', 'csv']
    with ThreadedWriter(build_writers(formats, tmp_path / 'threads',
                                      ['entropy']), queue=2) as writer:
        for result in results:
            writer.write(result)
    plain = build_writers(formats, tmp_path / 'plain', ['entropy'])
    for writer in plain:
        for result in results:
            writer.write(result)
        writer.close()
    assert files(tmp_path / 'threads') == files(tmp_path / 'plain')
    for name in files(tmp_path / 'plain'):
        if not name.endswith('jsonl'):
            assert ((tmp_path / 'threads' / name).read_bytes() ==
                    (tmp_path / 'plain' / name).read_bytes())


def test_an_error_in_a_thread_reaches_the_caller(tmp_path):
    (tmp_path / 'npy').write_text('a file where a folder should be')
    writer = ThreadedWriter(build_writers(['npy'], tmp_path, ['entropy']),
                            workers=1, queue=1)
    with pytest.raises(OSError, match='in folder .*npy'):
        for seed in range(50):
            writer.write(make_result(str(seed)))
        writer.close()
    with pytest.raises(OSError, match='in folder'):
        writer.close()
    assert not any(thread.name.startswith('map-writer')
                   for thread in threading.enumerate())


def test_the_queue_is_bounded(tmp_path):
    gate, started = threading.Event(), []

    class Slow:
        def write(self, result):
            gate.wait(10)

        def close(self):
            pass

    writer = ThreadedWriter([Slow()], workers=1, queue=2)

    def produce():
        for seed in range(6):
            writer.write(make_result(str(seed)))
            started.append(seed)

    producer = threading.Thread(target=produce)
    producer.start()
    producer.join(0.3)
    assert len(started) == 3, 'one at work and two waiting'
    gate.set()
    producer.join()
    writer.close()
    assert len(started) == 6


def test_the_callers_own_error_is_the_one_seen(tmp_path):
    with pytest.raises(KeyError, match='mine'):
        with ThreadedWriter(build_writers(['npy'], tmp_path,
                                          ['entropy'])) as writer:
            writer.write(make_result('0'))
            raise KeyError('mine')
    assert files(tmp_path) == ['npy/entropy/0.npy']
