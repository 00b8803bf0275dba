import pytest
import torch
from toys import bayesian_config, build

from abnn_mmseg.engine.conversion import average, export_full, import_full
from abnn_mmseg.engine.members import norm_state


@pytest.fixture
def model():
    return build(bayesian_config())


@pytest.fixture
def base(model, tmp_path):
    path = tmp_path / 'base.pth'
    torch.save(model.state_dict(), path)
    return path


def member(shift):
    model = build(bayesian_config())
    for name, value in norm_state(model).items():
        model.state_dict()[name].copy_(value + shift)
    return dict(state=norm_state(model), meta=dict(seed=1))


def test_a_member_exported_and_imported_is_itself(model, base, tmp_path):
    export_full(base, member(1), tmp_path / 'full.pth')
    back = import_full(model, tmp_path / 'full.pth')
    for name, value in member(1)['state'].items():
        assert torch.equal(back['state'][name], value), name


def test_an_export_is_an_ordinary_checkpoint(model, base, tmp_path):
    export_full(base, member(1), tmp_path / 'full.pth')
    state = torch.load(tmp_path / 'full.pth', weights_only=True)['state_dict']
    model.load_state_dict(state, strict=True)


def test_a_checkpoint_of_another_base_is_not_imported(model, base, tmp_path):
    state = model.state_dict()
    state['backbone.conv1.weight'] = state['backbone.conv1.weight'] + 1
    torch.save(state, tmp_path / 'other.pth')
    with pytest.raises(ValueError, match='another base'):
        import_full(model, tmp_path / 'other.pth')


def test_the_average_is_the_mean_of_every_tensor():
    mean = average([member(0), member(2)])['state']
    for name, value in member(1)['state'].items():
        assert torch.allclose(mean[name].double(), value.double()), name
