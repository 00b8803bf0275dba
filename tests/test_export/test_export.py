"""Exports that share the work: threads, batches, two processes."""
import os
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from results import contents
from sketches import abnn_config

from abnn_mmseg.export import ABNNInferencer, export_maps
from abnn_mmseg.utils.threads import run_ahead

ROOT = Path(__file__).resolve().parents[2]
FORMATS = ['npy', 'csv', 'gallery']


def slurm(arguments, tasks=2):
    """What ``srun -n 2`` does, as far as the processes can see."""
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    processes = [subprocess.Popen(
        [sys.executable, *map(str, arguments), '--launcher', 'slurm'],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=dict(os.environ, PYTHONPATH=str(ROOT), OMP_NUM_THREADS='1',
                 SLURM_PROCID=str(task), SLURM_NTASKS=str(tasks),
                 SLURM_NODELIST='node', MASTER_ADDR='127.0.0.1',
                 MASTER_PORT=str(port))) for task in range(tasks)]
    outputs = [process.communicate()[0] for process in processes]
    assert all(p.returncode == 0 for p in processes), '\n'.join(outputs)
    return outputs


def test_two_processes_write_what_one_does(sketch, base, folder, tmp_path):
    """Five images on two ranks, to the last bit, ranking and page too."""
    cfg = abnn_config(sketch, tmp_path / 'work', base)
    cfg.dump(tmp_path / 'config.py')
    export_maps(ABNNInferencer(cfg, str(base), device='cpu'), str(folder),
                tmp_path / 'one', FORMATS)
    outputs = slurm(['tools/export_maps.py', tmp_path / 'config.py', base,
                     folder, tmp_path / 'two', '--format',
                     *FORMATS])
    assert '5 images written' in outputs[0]
    assert '5 images written' not in outputs[1]
    one, two = contents(tmp_path / 'one'), contents(tmp_path / 'two')
    assert 'csv/entropy.csv' in one and 'gallery/index.html' in one
    assert sorted(one) == sorted(two)
    for name in one:
        assert one[name] == two[name], name
    assert one['csv/entropy.csv'].count(b'\n') == 6
    assert len(list((tmp_path / 'two' / 'csv').glob('*.jsonl'))) == 2


def test_jobs_run_ahead_in_order_and_no_further_than_told():
    started, taken = [], []

    def job(number):
        started.append(number)
        return number

    def jobs():
        for number in range(20):
            taken.append(number)
            yield partial(job, number)

    results = run_ahead(jobs(), depth=3, workers=1)
    assert next(results) == 0 and len(taken) == 4
    assert list(results) == list(range(1, 20))


def test_reading_overlaps_with_the_network():
    """While the caller has the first result, the next one is made."""
    busy, made = threading.Event(), threading.Event()

    def second():
        assert busy.wait(60)
        made.set()
        return 2

    results = run_ahead([lambda: 1, second, lambda: 3])
    assert next(results) == 1
    busy.set()
    assert made.wait(60)
    assert list(results) == [2, 3]


def test_an_error_of_a_job_comes_in_its_place():
    def fail():
        raise ValueError('broken.png')

    results = run_ahead([lambda: 1, fail, lambda: 3])
    assert next(results) == 1
    with pytest.raises(ValueError, match='broken.png'):
        next(results)
    assert not any(thread.name.startswith('run-ahead')
                   for thread in threading.enumerate())
