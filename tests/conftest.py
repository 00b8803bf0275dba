"""What every test starts from."""
import mmengine.config.config
import pytest
import torch
from mmengine.registry import init_default_scope
from sketches import SIZE
from toys import build, toy_config

import abnn_mmseg  # noqa: F401
from abnn_mmseg.datasets.muad_sketch import make_muad_sketch

# Runners print their config prettily, which takes longer than to train a toy.
mmengine.config.config.FormatCode = lambda text, **kwargs: (text, False)
# The models are tiny, and sums of one thread are the same everywhere.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def mmseg_scope():
    """Registries of mmseg and a seed."""
    init_default_scope('mmseg')
    torch.manual_seed(0)


@pytest.fixture
def images():
    return torch.randn(2, 3, 32, 48)


@pytest.fixture(scope='session')
def sketch(tmp_path_factory):
    root = tmp_path_factory.mktemp('sketch')
    make_muad_sketch(
        root, dict(train=6, val=3, test_id=2, test_ood=3), size=SIZE,
        workers=1)
    return root


@pytest.fixture(scope='session')
def base(tmp_path_factory):
    """A base checkpoint of the toy."""
    cfg = toy_config(auxiliary=False)
    cfg['decode_head']['num_classes'] = 15
    path = tmp_path_factory.mktemp('base') / 'base.pth'
    torch.save(dict(state_dict=build(cfg).state_dict()), path)
    return path
