import pytest
import torch
from toys import bayesian_config, build

from abnn_mmseg.members.exchange import average, export_full, import_full
from abnn_mmseg.members.files import norm_state


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
    return dict(state=norm_state(model), meta=dict(seed=1, alpha=0.2),
                fingerprint='one', path=f'member_{shift}.pth')


def test_a_member_exported_and_imported_is_itself(model, base, tmp_path):
    export_full(base, member(1), tmp_path / 'full.pth')
    back = import_full(model, tmp_path / 'full.pth')
    for name, value in member(1)['state'].items():
        assert torch.equal(back['state'][name], value), name
    assert back['meta']['seed'] == 1


def test_an_export_is_an_ordinary_checkpoint(model, base, tmp_path):
    export_full(base, member(1), tmp_path / 'full.pth')
    state = torch.load(tmp_path / 'full.pth', weights_only=True)['state_dict']
    model.load_state_dict(state, strict=True)


def test_an_export_keeps_the_class_names_of_the_base(model, tmp_path):
    meta = dict(dataset_meta=dict(classes=['road', 'car']))
    torch.save(dict(state_dict=model.state_dict(), meta=meta),
               tmp_path / 'base.pth')
    export_full(tmp_path / 'base.pth', member(1), tmp_path / 'full.pth')
    exported = torch.load(tmp_path / 'full.pth', weights_only=True)['meta']
    assert exported['dataset_meta'] == meta['dataset_meta']


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


def test_members_of_two_bases_or_architectures_are_not_averaged():
    other = dict(member(2), fingerprint='two')
    with pytest.raises(ValueError, match='member_2.pth belongs to another'):
        average([member(1), other])
    smaller = member(2)
    smaller['state'].popitem()
    with pytest.raises(ValueError, match='member_2.pth has other norm'):
        average([member(1), smaller])


def test_an_average_keeps_what_its_members_share():
    assert average([member(0), member(2)])['meta'] == dict(
        alpha=0.2, scope=None, average_of=2)
