"""The installed package, away from any clone."""
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import mmseg
import pytest

from abnn_mmseg.datasets.muad_sketch import BASE_CHECKPOINT

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ('abnn_mmseg', 'configs', 'tools', 'setup.py', 'pyproject.toml',
           'README.md', 'LICENSE', 'MANIFEST.in', 'model-index.yml')
CHILD = '''
load_from = None
train_cfg = dict(members=1, max_iters=1)
model = dict(posterior=dict(samples=2))
data = dict(data_root={data!r})
train_dataloader = dict(dataset=data, num_workers=0, persistent_workers=False)
val_dataloader = None
val_cfg = None
val_evaluator = None
'''


@pytest.fixture(scope='module')
def wheel(tmp_path_factory):
    """Built from a copy, so that the build leaves nothing in the clone."""
    folder = tmp_path_factory.mktemp('wheel')
    source = folder / 'source'
    source.mkdir()
    ignore = shutil.ignore_patterns('__pycache__')
    for name in SOURCES:
        copy = (shutil.copy if (ROOT / name).is_file() else
                lambda a, b: shutil.copytree(a, b, ignore=ignore))
        copy(ROOT / name, source / name)
    pip('wheel', source, '--wheel-dir', folder, '--no-build-isolation')
    [path] = folder.glob('*.whl')
    return path


@pytest.fixture(scope='module')
def run(wheel, tmp_path_factory):
    """Run Python in an empty folder, with the wheel before all else."""
    folder = tmp_path_factory.mktemp('elsewhere')
    pip('install', wheel, '--target', folder / 'site')
    env = dict(os.environ, PYTHONPATH=str(folder / 'site'),
               OMP_NUM_THREADS='1')

    def _run(*command):
        process = subprocess.run(
            [sys.executable, *map(str, command)], cwd=folder, text=True,
            capture_output=True, env=env)
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout

    _run.folder = folder
    return _run


def pip(*arguments):
    subprocess.run(
        [sys.executable, '-m', 'pip', '--disable-pip-version-check', '-q',
         *map(str, arguments), '--no-deps', '--no-index'], check=True)


def test_configs_and_tools_are_inside_and_benchmarks_are_not(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    inside = {name[len('abnn_mmseg/.mim/'):] for name in names
              if name.startswith('abnn_mmseg/.mim/')}
    for folder, pattern in (('configs', '*.py'), ('configs', '*.yml')):
        for path in (ROOT / folder).rglob(pattern):
            assert path.relative_to(ROOT).as_posix() in inside, path
    assert {'model-index.yml', 'tools/train.py',
            'tools/dist_train.sh'} <= inside
    assert not any('benchmark' in name for name in inside)
    assert 'abnn_mmseg/py.typed' in names


def test_the_source_archive_has_every_folder_of_the_clone(tmp_path):
    ignore = shutil.ignore_patterns(
        '.*', *(ROOT / '.gitignore').read_text().replace('/', '').split())
    source = tmp_path / 'source'
    shutil.copytree(ROOT, source, ignore=ignore)
    subprocess.run(
        [sys.executable, '-c', 'import setuptools.build_meta as backend; '
         f'backend.build_sdist({str(tmp_path)!r})'],
        cwd=source, check=True, capture_output=True)
    [archive] = tmp_path.glob('*.tar.gz')
    with tarfile.open(archive) as tar:
        found = {name.partition('/')[2] for name in tar.getnames()}
    wanted = {path.relative_to(source).as_posix() for path in
              source.rglob('*') if path.is_file()}
    assert 'examples/serve.py' in found
    assert not {path for path in wanted - found if 'egg-info' not in path}


def test_the_demo_runs_and_a_child_config_trains(run):
    abnn = run.folder / 'site' / 'bin' / 'abnn'
    out = run(abnn, 'demo', '--quick')
    assert 'work_dirs/demo-quick/report/index.html' in out
    demo = run.folder / 'work_dirs' / 'demo-quick'
    assert (demo / 'report' / 'index.html').is_file()
    assert 'site' in run('-c', 'import abnn_mmseg; '
                         'print(abnn_mmseg.__file__)')

    base = f'load_from = {str(BASE_CHECKPOINT)!r}'
    text = CHILD.format(data=str(demo / 'data')).replace(
        'load_from = None', base)
    name = 'abnn_deeplabv3plus_muad-sketch.py'
    (run.folder / 'child.py').write_text(
        f"_base_ = 'abnn_mmseg::{name}'\n{text}")
    run(abnn, 'train', 'child.py')
    assert (run.folder / 'work_dirs/child/members.pth').is_file()

    # mmseg's own tools import nothing of ours before they read `_base_`.
    (run.folder / 'other.py').write_text(
        f"_base_ = __import__('abnn_mmseg').config_path('{name}')\n{text}")
    train = Path(mmseg.__file__).parent / '.mim/tools/train.py'
    run(train, 'other.py')
    assert (run.folder / 'work_dirs/other').is_dir()
