"""Lists, resuming and refusals: files are never half or lost."""
import csv

import numpy as np
import pytest
from results import files, make_result, make_writer

from abnn_mmseg.export.formats import FORMATS, TILED, build_writers
from abnn_mmseg.export.result import MapResult


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


# Tested with guarantees, and with volumes.
ELSEWHERE = {'alarm', 'label-set', 'set-size', 'nifti'}


@pytest.mark.parametrize(
    'format', sorted({*FORMATS} - {*TILED} - ELSEWHERE))
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
    assert sorted(map(str, before)) == [
        str(tmp_path / name) for name in files(tmp_path)]
    export(overwrite=True)


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


def test_a_result_prints_as_one_line():
    result = MapResult('a/b', np.zeros((4, 6), int), {'msp': np.zeros((4, 6))})
    assert repr(result) == "MapResult('a/b', 4x6, maps=['msp'])"
