"""The same seed gives the same maps, whatever runs them, however cut.

The same of members is in ``test_engine/test_trainer.py``: again, alone, with
other workers, after a kill; of several processes in ``test_distributed.py``.
"""
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sketches import abnn_config

from abnn_mmseg.export import ABNNInferencer, export_maps

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope='module')
def images(sketch):
    return sketch / 'test_ood' / 'leftImg8bit'


def inferencer(sketch, base, **options):
    cfg = abnn_config(sketch, 'unused', base)
    cfg.model.posterior.update(samples=4, **options)
    return ABNNInferencer(cfg, str(base), device='cpu')


def digest(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(Path(folder).rglob('*.npy'))}


def test_another_process_writes_the_same_bytes(
        sketch, base, images, tmp_path):
    here = inferencer(sketch, base)
    export_maps(here, str(images), str(tmp_path / 'here'))
    here.cfg.dump(tmp_path / 'abnn.py')
    subprocess.run(
        [sys.executable, ROOT / 'tools' / 'export_maps.py',
         tmp_path / 'abnn.py', base, images, tmp_path / 'there', '--format',
         'npy', '--device', 'cpu'], cwd=ROOT, check=True,
        capture_output=True,
        env=dict(os.environ, PYTHONPATH=str(ROOT), OMP_NUM_THREADS='1'))
    assert digest(tmp_path / 'here') == digest(tmp_path / 'there') != {}


@pytest.mark.parametrize('batch', [2, 3])
def test_the_batch_size_changes_no_map(sketch, base, images, batch):
    model = inferencer(sketch, base)
    assert_same(model(images), model(images, batch_size=batch))


@pytest.mark.parametrize('chunk', [1, 3, 4])
def test_the_chunk_size_changes_no_map(sketch, base, images, chunk):
    assert_same(inferencer(sketch, base)(images),
                inferencer(sketch, base, draws_per_pass=chunk)(images))


def test_another_seed_gives_other_maps(sketch, base, images):
    one = inferencer(sketch, base)(images)[0]
    other = inferencer(sketch, base, seed=1)(images)[0]
    assert np.abs(one.maps['entropy'] - other.maps['entropy']).max() > 1e-4


def assert_same(one, other):
    """Up to the order in which a batched convolution adds."""
    assert len(one) == len(other) > 1
    for a, b in zip(one, other):
        assert a.name == b.name
        for score, map_ in a.maps.items():
            np.testing.assert_allclose(b.maps[score], map_, atol=2e-6)
