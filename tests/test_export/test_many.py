"""Shards, object stores and Dask: the files of one process."""
import os
import runpy
import subprocess
from pathlib import Path

import cv2
import numpy as np
import pytest
from mmengine.fileio import LocalBackend, register_backend
from results import contents
from sketches import abnn_config

from abnn_mmseg.export import ABNNInferencer, Frames, export_maps
from abnn_mmseg.export.export import shard_of

ROOT = Path(__file__).resolve().parents[2]
FORMATS = ['npy', 'csv', 'gallery']


@pytest.fixture(scope='module')
def inferencer(sketch, base, tmp_path_factory):
    cfg = abnn_config(sketch, tmp_path_factory.mktemp('work'), base)
    return ABNNInferencer(cfg, str(base), device='cpu', scores=['entropy'])


def test_shards_in_any_order_write_the_files_of_one_run(inferencer, folder,
                                                        tmp_path):
    export_maps(inferencer, folder, tmp_path / 'one', FORMATS)
    # The second one twice: as if it had been killed at its end.
    written = [export_maps(inferencer, folder, tmp_path / 'shards', FORMATS,
                           shard=f'{number}/3') for number in (3, 2, 2, 1)]
    assert written == [(1, 0), (2, 0), (0, 2), (2, 0)]
    assert contents(tmp_path / 'one') == contents(tmp_path / 'shards')
    assert export_maps(inferencer, folder, tmp_path / 'shards', FORMATS,
                       resume=True) == (0, 5)


def test_shards_of_another_list_are_named(inferencer, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr('abnn_mmseg.export.record.print_log',
                        lambda text, *_: said.append(text))
    source, out = tmp_path / 'images', tmp_path / 'out'
    source.mkdir()

    def shard(number):
        """Export one shard; return what it says."""
        export_maps(inferencer, source, out, shard=number)
        found = said.copy()
        said.clear()
        return found

    for name in 'bdfh':
        cv2.imwrite(str(source / f'{name}.png'), np.zeros((32, 48, 3)))
    assert shard('1/2') == []
    cv2.imwrite(str(source / 'c.png'), np.zeros((32, 48, 3)))
    # The list is b c d f h now: d and h are in neither.
    [warning] = shard('2/2')
    assert 'of another list of images' in warning and '(1/2)' in warning
    assert shard('1/2') == shard('2/2') == []
    assert len(list(out.glob('npy/entropy/*.npy'))) == 5
    [warning] = shard('1/3')
    assert '(1/2, 2/2)' in warning


def test_shards_of_several_processes_share_all_images():
    numbers = [shard_of(f'{shard}/3', rank, 2)
               for shard in (1, 2, 3) for rank in (0, 1)]
    assert numbers == [(number, 6) for number in range(6)]


@pytest.mark.parametrize('shard', ['0/3', '4/3', '3', 'a/b', '1/0'])
def test_a_wrong_shard_is_a_sentence(inferencer, folder, tmp_path, shard):
    with pytest.raises(ValueError, match='write 3/16'):
        export_maps(inferencer, folder, tmp_path / 'out', shard=shard)


def test_shards_do_not_overwrite_each_other(inferencer, folder, tmp_path):
    with pytest.raises(ValueError, match='files of other shards'):
        export_maps(inferencer, folder, tmp_path / 'out', shard='1/2',
                    overwrite=True)


class Store(LocalBackend):
    """A folder of this machine behind ``teststore://``."""

    root = ''

    def _path(self, address):
        return str(address).replace('teststore://bucket', self.root)

    def get(self, filepath):
        return super().get(self._path(filepath))

    def exists(self, filepath):
        return super().exists(self._path(filepath))

    def isdir(self, filepath):
        return super().isdir(self._path(filepath))

    def list_dir_or_file(self, dir_path, **options):
        return super().list_dir_or_file(self._path(dir_path), **options)

    def join_path(self, filepath, *filepaths):
        return '/'.join([str(filepath), *filepaths])


@pytest.fixture
def store(folder, monkeypatch):
    register_backend('teststore', Store, force=True, prefixes='teststore')
    monkeypatch.setattr(Store, 'root', str(folder))
    return 'teststore://bucket'


def test_images_of_an_object_store_are_read_by_its_backend(
        inferencer, folder, store, tmp_path):
    export_maps(inferencer, folder, tmp_path / 'local', FORMATS)
    assert export_maps(inferencer, store, tmp_path / 'stored',
                       FORMATS) == (5, 0)
    assert contents(tmp_path / 'local') == contents(tmp_path / 'stored')
    assert export_maps(inferencer, store, tmp_path / 'stored', FORMATS,
                       resume=True) == (0, 5)
    [result] = inferencer(f'{store}/sub/c.png')
    assert result.name == 'c'
    with pytest.raises(FileNotFoundError, match='is not a folder of Store'):
        Frames(f'{store}/nowhere')


def test_dask_maps_the_inferencer_over_a_folder(inferencer, folder):
    """Two workers of this machine, as threads."""
    distributed = pytest.importorskip('dask.distributed')
    rank = runpy.run_path(str(ROOT / 'examples/dask_map.py'))['rank']
    expected = sorted(((r.name, float(r.maps['entropy'].mean()))
                       for r in inferencer(folder)), key=lambda row: -row[1])
    with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False,
            dashboard_address=None) as cluster, distributed.Client(
                cluster) as client:
        assert rank(client, inferencer, folder) == expected


@pytest.mark.skipif(os.name != 'posix', reason='a shell script')
def test_an_array_of_slurm_names_the_shard(tmp_path):
    """What a job of the array runs, with another program for Python."""
    printed = subprocess.run(
        ['bash', str(ROOT / 'examples/slurm_array.sh'), 'c.py', 'b.pth'],
        env=dict(os.environ, SLURM_ARRAY_TASK_ID='3', PYTHON='echo',
                 SLURM_ARRAY_TASK_COUNT='16'), text=True, check=True,
        capture_output=True).stdout
    assert printed.split() == [
        'tools/export_maps.py', 'c.py', 'b.pth', '--shard', '3/16']
