"""Two gloo processes against one."""
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from sketches import abnn_config

from abnn_mmseg.engine import read_members, train
from abnn_mmseg.engine.tester import test as run_test

ROOT = Path(__file__).resolve().parents[2]


def torchrun(script, *arguments):
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    process = subprocess.run(
        ['bash', ROOT / 'tools' / script, *map(str, arguments)], cwd=ROOT,
        capture_output=True, text=True, env=dict(
            os.environ, PYTHONPATH=f'{ROOT}:{ROOT / "tests"}',
            OMP_NUM_THREADS='1', PORT=str(port),
            PATH=f'{Path(sys.executable).parent}:{os.environ["PATH"]}'))
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def deterministic(sketch, work_dir, base, batch):
    """No noise or dropout: gradients can be compared. Flips stay."""
    cfg = abnn_config(sketch, work_dir, base)
    cfg.model.posterior.alpha = 0.
    cfg.model.decode_head.dropout_ratio = 0.
    cfg.train_dataloader.batch_size = batch
    return cfg


def test_two_processes_train_what_one_does(sketch, base, tmp_path):
    one = deterministic(sketch, tmp_path / 'one', base, batch=4)
    train(one, members=1)
    two = deterministic(sketch, tmp_path / 'two', base, batch=2)
    two.custom_imports.imports.append('rank_probe')
    two.custom_hooks = [dict(type='RankProbe')]
    two.dump(tmp_path / 'two.py')
    torchrun('dist_train.sh', tmp_path / 'two.py', 2, '--members', 1)
    [expected] = read_members(tmp_path / 'one' / 'member_0.pth')
    [actual] = read_members(tmp_path / 'two' / 'member_0.pth')
    assert actual['meta']['eta'] == expected['meta']['eta']
    for name, value in expected['state'].items():
        if value.is_floating_point():
            assert torch.allclose(actual['state'][name], value,
                                  atol=1e-5), name
    first, second = (
        torch.load(tmp_path / 'two' / 'member_0' / f'rank_{k}.pt')
        for k in range(2))
    assert torch.equal(first['eta'], second['eta'])
    assert not torch.equal(first['noise'], second['noise'])


def test_two_processes_test_what_one_does(sketch, base, tmp_path):
    """Three images on two ranks: the repeated one must not count."""
    cfg = abnn_config(sketch, tmp_path / 'one', base)
    expected = run_test(cfg, base)
    cfg.work_dir = str(tmp_path / 'two')
    cfg.dump(tmp_path / 'two.py')
    torchrun('dist_test.sh', tmp_path / 'two.py', 2, base)
    actual = json.loads((tmp_path / 'two' / 'metrics.json').read_text())
    for key in expected:
        if key.startswith(('ood/', 'cal/', 'sel/', 'seg/mIoU')):
            value = actual[key]
            assert (value if value is not None else float(
                'nan')) == pytest.approx(expected[key], abs=1e-3,
                                         nan_ok=True), key
