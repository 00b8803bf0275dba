"""The tools as a user runs them, in processes of their own."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sketches import abnn_config, config

ROOT = Path(__file__).resolve().parents[1]


def tool(name, *arguments, code=0):
    process = subprocess.run(
        [sys.executable, ROOT / 'tools' / f'{name}.py', *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True,
        env=dict(os.environ, PYTHONPATH=str(ROOT),
                 OMP_NUM_THREADS='1'))
    assert process.returncode == code, process.stdout + process.stderr
    return process.stdout + process.stderr


def test_train_test_and_export_end_to_end(sketch, tmp_path):
    """Twenty iterations of a base, its members, their test, their maps."""
    base_cfg, abnn_cfg = tmp_path / 'base.py', tmp_path / 'abnn.py'
    config(sketch, tmp_path / 'base', iterations=20).dump(base_cfg)
    tool('train', base_cfg)
    base = tmp_path / 'base' / 'iter_20.pth'
    cfg = abnn_config(sketch, tmp_path / 'abnn', base)
    cfg.dump(abnn_cfg)
    folder = tmp_path / 'abnn'
    output = tool('train', abnn_cfg, '--members', 2, '--work-dir', folder)
    assert 'all 2' in output and 'class maps' not in output
    members = folder / 'members.pth'
    command = f'abnn test {abnn_cfg} {base} {members} --work-dir {folder}\n'
    assert f'next: {command}' in output
    output = tool('test', abnn_cfg, base, members)
    assert 'Anomaly detection' in output
    metrics = json.loads((tmp_path / 'abnn' / 'metrics.json').read_text())
    assert 0 <= metrics['ood/pooled/entropy/AUROC'] <= 100
    assert list((tmp_path / 'abnn' / 'plots').glob('*.png'))
    plain = tool('test', base_cfg, base, '--work-dir', tmp_path / 'plain')
    assert 'Anomaly detection' in plain
    output = tool('export_maps', abnn_cfg, base, 'test', tmp_path / 'maps',
                  '--members', members, '--format', 'npy', 'overlay',
                  'gallery')
    page = tmp_path / 'maps' / 'gallery' / 'index.html'
    assert f'3 images written to {tmp_path / "maps"}.\n' in output
    assert f'Page: {page}\n' in output and page.is_file()


def test_missing_muad_says_where_it_goes_and_what_to_do(tmp_path):
    if (ROOT / 'data' / 'muad').exists():
        pytest.skip('MUAD is there')
    output = tool('train', 'configs/abnn_deeplabv3plus_muad.py', '--work-dir',
                  tmp_path, code=1)
    message = ' '.join(output.split())
    for word in ('data/muad', 'ENSTA-U2IS/MUAD', 'abnn make-muad-sketch'):
        assert word in message
    assert 'Traceback' not in output


def test_import_without_mmseg_is_one_sentence(tmp_path):
    script = ("import sys, importlib.util as u\nfind = u.find_spec\n"
              "u.find_spec = lambda n, *a: None if n == 'mmseg' "
              'else find(n, *a)\nimport abnn_mmseg')
    process = subprocess.run([sys.executable, '-c', script], cwd=ROOT,
                             capture_output=True, text=True)
    assert process.stderr.strip().splitlines()[-1] == (
        'ImportError: abnn_mmseg needs mmseg, which is not installed; run '
        "`pip install 'abnn-mmseg[onedl]'` (or `pip install -e '.[onedl]'` "
        'in a clone).')
