"""Whoever loads the weights of a segmentor gets its members."""
import pytest
import torch
from mmengine.runner import load_checkpoint
from toys import bayesian_config, build, toy_config

from abnn_mmseg.members.autoload import DESCRIPTION
from abnn_mmseg.members.exchange import export_whole
from abnn_mmseg.members.files import (
    CARRIED,
    fingerprint,
    load_base,
    norm_state,
    save_members,
)


@pytest.fixture
def files(tmp_path):
    """A base and two members of it, as files."""
    model = build(bayesian_config())
    own = norm_state(model)
    members = [
        dict(state={k: v * f if k.endswith('weight') else v
                    for k, v in own.items()}, meta=dict(seed=i))
        for i, f in enumerate((1.2, 0.8))
    ]
    torch.save(dict(state_dict=model.state_dict()), tmp_path / 'base.pth')
    save_members(tmp_path / 'members.pth', members, fingerprint(model))
    export_whole(tmp_path / 'base.pth', members, tmp_path / 'whole.pth')
    return tmp_path


def entropy(model, images):
    with torch.no_grad():
        return model.predict(images)[0].uncertainty.entropy


def test_the_config_s_members_are_loaded_with_the_base(files, images):
    named = dict(members=str(files / 'members.pth'))
    model = build(bayesian_config(posterior=named), seed=5)
    with pytest.raises(ValueError, match='not loaded, since no weights were'):
        model.predict(images)
    load_checkpoint(model, str(files / 'base.pth'), map_location='cpu')
    assert len(model.posterior.members) == 2
    whole = build(bayesian_config(), seed=6)
    load_checkpoint(whole, str(files / 'whole.pth'), map_location='cpu')
    assert torch.equal(entropy(model, images), entropy(whole, images))
    assert len(whole.posterior) == 8
    ours = build(bayesian_config(), seed=7)
    load_base(ours, files / 'whole.pth')
    assert torch.equal(entropy(ours, images), entropy(whole, images))


DAMAGES = {
    'no description': lambda state: state.pop(DESCRIPTION),
    'no JSON': lambda state: state[DESCRIPTION].zero_(),
    'no number': lambda state: state.update(
        {f'{CARRIED}x.bn1.weight': torch.ones(3)}),
    'no tensor': lambda state: state.pop(
        f'{CARRIED}0.backbone.bn1.weight'),
}


@pytest.mark.parametrize('damage', DAMAGES)
def test_damaged_members_of_a_checkpoint_are_refused(files, damage):
    content = torch.load(files / 'whole.pth')
    DAMAGES[damage](content['state_dict'])
    torch.save(content, files / 'damaged.pth')
    with pytest.raises(ValueError, match='the (members that the )?check'):
        load_base(build(bayesian_config()), files / 'damaged.pth')


def test_a_plain_segmentor_ignores_carried_members(files):
    model = build(toy_config())
    load_checkpoint(model, str(files / 'whole.pth'), map_location='cpu')


def test_members_of_another_base_are_refused(files):
    other = build(bayesian_config(), seed=9)
    named = dict(members=str(files / 'members.pth'))
    model = build(bayesian_config(posterior=named))
    with pytest.raises(ValueError, match='belongs to another base'):
        model.load_state_dict(other.state_dict())


def test_a_missing_member_file_is_an_error(files):
    model = build(bayesian_config(posterior=dict(members='nowhere.pth')))
    with pytest.raises(FileNotFoundError, match='nowhere.pth'):
        load_checkpoint(model, str(files / 'base.pth'), map_location='cpu')


def test_a_member_file_is_no_checkpoint(files):
    model = build(bayesian_config())
    with pytest.raises(ValueError, match='a member file was given'):
        load_checkpoint(model, str(files / 'members.pth'), map_location='cpu')
