"""The example configs, as a user's tool reads them."""
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from small_zoo import narrow
from toys import build

from abnn_mmseg.engine.loading import forget_pretrained

EXAMPLES = Path(__file__).resolve().parents[1] / 'configs/examples'
CHILDREN = sorted(path.name for path in EXAMPLES.glob('*_abnn.py'))


def change(name):
    """The lines of a config without comments."""
    lines = (EXAMPLES / name).read_text().splitlines()
    return [line for line in lines if not line.startswith('#')]


@pytest.mark.parametrize('name', CHILDREN)
def test_a_child_config_builds_and_predicts(name):
    cfg = Config.fromfile(EXAMPLES / name)
    assert 'abnn_mmseg' in cfg.custom_imports['imports']
    assert {'train_dataloader', 'optim_wrapper', 'train_cfg'} <= set(cfg)
    forget_pretrained(cfg.model)
    narrow(cfg.model, 8)
    model = build(cfg.model)
    with torch.no_grad():
        [sample] = model.predict(torch.randn(1, 3, 64, 64))
    assert sample.metainfo['draws'] == model.posterior.samples
    assert sample.uncertainty.mutual_information.max() > 0


def test_a_change_is_ten_lines_and_segformer_s_three():
    assert len(CHILDREN) == 3
    for name in CHILDREN:
        assert len(change(name)) <= (3 if 'segformer' in name else 10), name


def test_the_users_config_says_nothing_of_abnn():
    assert not any('abnn' in line for line in change('my_pspnet.py'))
