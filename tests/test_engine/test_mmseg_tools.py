"""mmseg's own tools do the whole job, by config alone."""
import subprocess
import sys
from pathlib import Path

import mmseg
import pytest
import torch
from mmengine.config import Config
from mmseg.apis import inference_model, init_model
from sketches import abnn_config

from abnn_mmseg.members.files import read_members
from abnn_mmseg.utils.checkpoints import read_state_dict

TOOLS = Path(mmseg.__path__[0]) / '.mim' / 'tools'


def run(tool: str, *arguments, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, TOOLS / tool, *map(str, arguments)],
        capture_output=True, text=True)
    assert (done.returncode == 0) == (code == 0), done.stderr + done.stdout
    return done.stdout + done.stderr


@pytest.fixture(scope='module')
def project(sketch, base, tmp_path_factory):
    """A config file, and what mmseg's train.py made of it."""
    folder = tmp_path_factory.mktemp('project')
    cfg = abnn_config(sketch, folder / 'work', base)
    cfg.train_cfg = dict(type='MemberTrainLoop', members=2, max_iters=2,
                         val_interval=2)
    cfg.custom_imports = dict(imports=['abnn_mmseg'])
    cfg.dump(folder / 'abnn.py')
    run('train.py', folder / 'abnn.py')
    return folder


def test_train_makes_all_members_and_keeps_them(project):
    path = project / 'work' / 'members.pth'
    members = read_members(path)
    assert [m['meta']['iterations'] for m in members] == [2, 2]
    assert members[0]['meta']['eta'] != members[1]['meta']['eta']
    before = path.read_bytes()
    assert 'would be replaced' in run(
        'train.py', project / 'abnn.py', code=1)
    text = run('train.py', project / 'abnn.py', '--resume',
               '--cfg-options', 'log_level=INFO')
    assert f"with members='{path}' in the config's model.posterior" in text
    assert path.read_bytes() == before


def test_train_refuses_to_start_without_a_base(project, tmp_path):
    text = run('train.py', project / 'abnn.py', '--work-dir', tmp_path,
               '--cfg-options', 'load_from=nowhere.pth', code=1)
    assert "load_from='nowhere.pth' does not exist" in text
    assert not list(tmp_path.glob('member*'))


def test_the_config_s_members_are_used_by_everybody(project, base):
    cfg = Config.fromfile(project / 'abnn.py')
    cfg.model.posterior.members = str(project / 'work' / 'members.pth')
    cfg.log_level = 'INFO'
    cfg.dump(project / 'test.py')
    text = run('test.py', project / 'test.py', base,
               '--work-dir', project / 'tested')
    assert 'mIoU' in text
    assert 'members.pth make 4 networks.' in text
    # As a runner writes it: init_model asks for meta.
    full = project / 'base.pth'
    torch.save(dict(state_dict=read_state_dict(base), meta=dict(
        dataset_meta=dict(classes=['a'] * 15, palette=[[0, 0, 0]] * 15))),
        full)
    model = init_model(str(project / 'test.py'), str(full), device='cpu')
    assert len(model.posterior) == 4
    image = torch.randint(0, 256, (32, 64, 3), dtype=torch.uint8).numpy()
    sample = inference_model(model, image)
    assert sample.draws == 4
    assert sample.uncertainty.mutual_information.max() > 0
    with pytest.raises(ValueError, match='a member file was given'):
        init_model(str(project / 'abnn.py'),
                   str(project / 'work' / 'members.pth'), device='cpu')
