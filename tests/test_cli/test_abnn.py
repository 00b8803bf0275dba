"""The subcommands of ``abnn`` and the tools over them."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from mmengine.config import Config

from abnn_mmseg.cli import main as cli
from abnn_mmseg.utils.configs import config_path, find_config

ROOT = Path(__file__).resolve().parents[2]
TOOLS = {
    path.name: re.search(r"run_command\('([a-z-]+)'\)", path.read_text())
    for path in (ROOT / 'tools').glob('*.py') if path.stem != 'benchmark'}


@pytest.mark.parametrize('name', cli.COMMANDS)
def test_every_command_answers_help(name, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([name, '--help'])
    assert not end.value.code
    assert f'usage: abnn {name}' in capsys.readouterr().out


def test_help_lists_all_commands(capsys):
    with pytest.raises(SystemExit):
        cli.main(['--help'])
    out = capsys.readouterr().out
    for name, text in cli.COMMANDS.items():
        assert re.search(rf'^  {name} +{re.escape(text)}$', out, re.M)


def test_no_command_gets_the_help(capsys, monkeypatch):
    monkeypatch.setattr(sys, 'argv', ['abnn'])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    assert 'commands:\n  init ' in capsys.readouterr().out


def test_the_options_page_names_every_command():
    page = (ROOT / 'docs' / 'options.md').read_text()
    named = re.findall(r'`abnn ([a-z-]+)', page)
    assert set(named) == set(cli.COMMANDS)


def test_onnx_names_a_missing_package_before_it_traces(monkeypatch, capsys,
                                                       tmp_path):
    monkeypatch.setitem(sys.modules, 'onnxruntime', None)
    with pytest.raises(SystemExit):
        # The config is not even read.
        cli.main(['onnx', 'nowhere.py', 'no.pth', str(tmp_path / 'a.onnx')])
    assert "pip install 'abnn-mmseg[onnx]'" in capsys.readouterr().err


def test_a_tool_is_a_command():
    """So both have the same arguments."""
    assert all(TOOLS.values())
    named = {match[1] for match in TOOLS.values()}
    assert named <= set(cli.COMMANDS)
    for path in (ROOT / 'tools').glob('*.py'):
        assert path.name == 'benchmark.py' or len(
            path.read_text().splitlines()) <= 8, path


def test_a_mistake_is_one_sentence(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(['train', 'nowhere.py'])
    assert end.value.code == 1
    error = capsys.readouterr().err
    assert 'nowhere.py' in error and 'Traceback' not in error


def test_a_closed_pipe_is_one_sentence():
    """As in ``abnn ... | head``."""
    code = ('import logging, sys\n'
            'from abnn_mmseg.utils.console import hide_library_messages, '
            'say_errors\n'
            'hide_library_messages()\n'
            'with say_errors():\n'
            '    logging.StreamHandler(sys.stdout).handle('
            'logging.makeLogRecord(dict(msg="a line")))\n'
            '    print("a result")\n')
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, '-c', code], stdout=writer,
                          stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.returncode == 1
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and 'Nobody reads the output' in lines[0]


def test_a_full_disk_behind_the_output_is_one_sentence():
    if not Path('/dev/full').exists():
        pytest.skip('there is no /dev/full')
    code = ('from abnn_mmseg.utils.console import say_errors\n'
            'with say_errors():\n'
            '    print("a result")\n')
    with open('/dev/full', 'w') as full:
        done = subprocess.run([sys.executable, '-c', code], stdout=full,
                              stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines() == [
        'OSError: [Errno 28] No space left on device']


def test_a_base_of_the_package_has_a_name(tmp_path):
    for name in ('abnn_deeplabv3plus_muad.py',
                 '_base_/datasets/muad_1024x2048.py'):
        child = tmp_path / 'child.py'
        child.write_text(f"_base_ = 'abnn_mmseg::{name}'\n")
        cfg = Config.fromfile(child)
        assert cfg.to_dict() == Config.fromfile(
            ROOT / 'configs' / name).to_dict()
        assert '_scope_' not in cfg.pretty_text


@pytest.mark.parametrize('name', [
    'abnn_deeplabv3plus_muad.py',
    'mmseg::pspnet/pspnet_r50-d8_4xb2-40k_cityscapes-512x1024.py'])
def test_a_base_has_a_path_before_anybody_imports_the_package(
        name, tmp_path):
    child = tmp_path / 'child.py'
    child.write_text(
        f"_base_ = __import__('abnn_mmseg').config_path({name!r})\n")
    out = subprocess.run(
        [sys.executable, '-c', 'from mmengine.config import Config\n'
         f'print(Config.fromfile({str(child)!r}).model.type)'],
        cwd=ROOT, text=True, capture_output=True, check=True).stdout
    assert out.splitlines()[-1].endswith('EncoderDecoder')


def test_a_name_that_is_no_config_suggests_one():
    with pytest.raises(FileNotFoundError, match='did you mean '
                       'abnn_mmseg::abnn_deeplabv3plus_muad.py?'):
        find_config('abnn_mmseg::abnn_deeplabv3plus_maud.py')


def test_mim_finds_every_model_config():
    index = yaml.safe_load((ROOT / 'model-index.yml').read_text())
    listed = [model['Config'] for path in index['Import']
              for model in yaml.safe_load((ROOT / path).read_text())['Models']]
    models = [path for path in (ROOT / 'configs').glob('*.py')
              if 'model' in Config.fromfile(path)]
    assert sorted(listed) == sorted(f'configs/{p.name}' for p in models
                                    if not p.stem.startswith('search'))
    assert all(Path(config_path(name[len('configs/'):])).is_file()
               for name in listed)


def test_commands_are_imported_when_they_are_called():
    script = ('import sys, abnn_mmseg.cli.main as m\n'
              'print([n for n in sys.modules '
              "if n.startswith('abnn_mmseg.cli.') and n != m.__name__])")
    out = subprocess.run([sys.executable, '-c', script], cwd=ROOT, text=True,
                         capture_output=True, check=True).stdout
    assert out.splitlines()[-1] == '[]'
