"""A mistake on the command line ends with one sentence, no traceback."""
import os
import resource
import runpy
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from sketches import abnn_config, config

from abnn_mmseg.export import ABNNInferencer, Frames
from abnn_mmseg.export.formats import build_writers
from abnn_mmseg.utils.arguments import config_file

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool(monkeypatch, capsys):
    """Run a tool in this process; its exit code and its last line."""

    def run(name, *arguments):
        monkeypatch.chdir(ROOT)
        monkeypatch.setattr(sys, 'argv', [name, *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(ROOT / 'tools' / f'{name}.py'),
                           run_name='__main__')
        error = capsys.readouterr().err
        assert 'Traceback' not in error
        return end.value.code, error.strip().splitlines()[-1]

    return run


@pytest.fixture
def plain(sketch, tmp_path):
    path = tmp_path / 'plain.py'
    config(sketch, tmp_path / 'plain').dump(path)
    return path


@pytest.fixture
def abnn(sketch, base, tmp_path):
    path = tmp_path / 'abnn.py'
    abnn_config(sketch, tmp_path / 'abnn', base).dump(path)
    return path


def test_a_config_that_does_not_exist(tool):
    code, line = tool('train', 'nowhere.py')
    assert code == 1 and line.startswith('FileNotFoundError:')
    assert 'nowhere.py' in line


def test_a_config_that_is_no_python(tool, tmp_path):
    path = tmp_path / 'broken.py'
    path.write_text('model = dict(')
    code, line = tool('test', path, 'base.pth')
    assert code == 1 and 'the config is no Python' in line


def test_a_base_that_does_not_exist(tool, abnn):
    code, line = tool('train', abnn, '--cfg-options', 'load_from=nowhere.pth')
    assert code == 1 and "load_from='nowhere.pth' does not exist" in line


def test_a_typo_in_an_option(tool, abnn):
    code, line = tool('train', abnn, '--cfg-options',
                      'model.posterior.scope=decode_haed')
    assert code == 1 and "did you mean 'decode_head'" in line


def test_a_typo_in_a_type(tool, abnn):
    code, line = tool('train', abnn, '--cfg-options',
                      'model.posterior.type=BNLPosteriour')
    assert code == 1 and 'BNLPosteriour is not in the' in line


def test_a_typo_in_a_score_or_a_format(tool, abnn, base, sketch, tmp_path):
    images = sketch / 'val' / 'leftImg8bit'
    code, line = tool('export_maps', abnn, base, images, tmp_path / 'out',
                      '--scores', 'entropie')
    assert code == 1 and "did you mean 'entropy'" in line
    code, line = tool('export_maps', abnn, base, images, tmp_path / 'out',
                      '--format', 'heatmaps')
    assert code == 1 and "did you mean 'heatmap'" in line
    assert not (tmp_path / 'out').exists()


def test_a_truncated_member(tool, abnn, base, tmp_path):
    path = tmp_path / 'member.pth'
    path.write_bytes(b'PK\x03\x04')
    code, line = tool('members', 'list', path)
    assert code == 1 and 'member.pth cannot be read as a checkpoint' in line


def test_a_sketch_of_other_parameters(tool, sketch):
    code, line = tool('make_muad_sketch', sketch, '--train', 1)
    assert code == 1 and str(sketch) in line and '--force' in line


def test_images_without_bdd(tool, tmp_path):
    code, line = tool('make_bdd_anomaly', tmp_path)
    assert code == 1 and str(tmp_path) in line


@contextmanager
def nobody():
    """Root may write everywhere, so be somebody else."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def little_room():
    """Files of more than 100 bytes do not fit."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize('limit, reason', [
    (nobody, 'Permission denied'), (little_room, 'File too large')])
def test_an_output_folder_that_cannot_be_written(
        limit, reason, sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path, base)
    inferencer = ABNNInferencer(cfg, str(base), device='cpu')
    image = sketch / 'val' / 'leftImg8bit' / '000000_leftImg8bit.png'
    results = inferencer(str(image))
    # Where other users may go, but not write.
    out = Path(tempfile.mkdtemp())
    out.chmod(0o555)
    writer = build_writers(['npy'], out / 'maps', ['entropy'])[0]
    try:
        with limit(), pytest.raises(OSError, match=(
                f"Cannot write '.*npy' in folder '{out}.*': {reason}")):
            writer.write(results[0])
        assert [p for p in out.rglob('*') if p.is_file()] == []
    finally:
        shutil.rmtree(out)


def test_a_checkpoint_in_the_place_of_images_is_named(tmp_path):
    path = tmp_path / 'base.pth'
    path.write_bytes(b'weights')
    with pytest.raises(ValueError, match='base.pth is a checkpoint, not an'):
        Frames(path)


def test_a_config_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match='nowhere.py does not exist'):
        config_file(str(tmp_path / 'nowhere.py'))
