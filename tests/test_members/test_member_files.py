import os
import pickle

import pytest
import torch
from mmengine.config import Config
from mmseg.registry import MODELS
from toys import bayesian_config, build

from abnn_mmseg.members.files import (
    fingerprint,
    load_base,
    load_members,
    norm_state,
    read_members,
    save_members,
)


@pytest.fixture
def model():
    return build(bayesian_config())


def member(model, **meta):
    return dict(state=norm_state(model), meta=meta)


def test_members_survive_the_file(model, tmp_path):
    path = tmp_path / 'm.pth'
    save_members(path, [member(model, seed=1), member(model, seed=2)],
                 fingerprint(model))
    loaded = read_members(path)
    assert [m['meta']['seed'] for m in loaded] == [1, 2]
    for name, value in norm_state(model).items():
        assert torch.equal(loaded[1]['state'][name], value)


def test_a_member_of_r50_is_below_a_megabyte_and_a_percent(tmp_path):
    cfg = Config.fromfile('configs/abnn_deeplabv3plus_muad.py')
    model = MODELS.build(cfg.model)
    save_members(tmp_path / 'm.pth', [member(model, eta=[0.] * 15)],
                 fingerprint(model))
    size = (tmp_path / 'm.pth').stat().st_size
    base = sum(t.nbytes for t in model.state_dict().values())
    assert size < 1e6
    assert size < 0.01 * base


def test_several_files_make_one_posterior(model, tmp_path):
    paths = [tmp_path / f'{k}.pth' for k in range(3)]
    for k, path in enumerate(paths):
        one = member(model)
        one['state']['backbone.bn1.bias'] = one['state'][
            'backbone.bn1.bias'] + k
        save_members(path, [one], fingerprint(model))
    load_members(model, paths)
    assert len(model.posterior) == 3 * 4


def test_the_fingerprint_ignores_norms_and_sees_all_else(model):
    before = fingerprint(model)
    model.backbone.bn1.weight.data += 1
    assert fingerprint(model) == before
    model.backbone.conv1.weight.data[0, 0, 0, 0] += 1e-6
    assert fingerprint(model) != before


def test_a_member_of_another_base_is_refused(model, tmp_path):
    path = tmp_path / 'm.pth'
    other = build(bayesian_config(), seed=0)
    other.backbone.conv1.weight.data += 1
    save_members(path, [member(other)], fingerprint(other))
    with pytest.raises(ValueError, match='another base'):
        load_members(model, path)
    assert model.posterior.members == []


def test_a_member_of_another_architecture_is_refused(model, tmp_path):
    path = tmp_path / 'm.pth'
    other = build(bayesian_config(auxiliary=False))
    save_members(path, [member(other)], fingerprint(other))
    with pytest.raises(ValueError, match='another architecture'):
        load_members(model, path)


def test_a_member_with_nan_is_refused(model, tmp_path):
    path, bad = tmp_path / 'm.pth', member(model)
    bad['state']['backbone.bn1.weight'][0] = float('nan')
    save_members(path, [bad], fingerprint(model))
    with pytest.raises(ValueError, match='NaN or inf.*backbone.bn1.weight'):
        load_members(model, path)


@pytest.mark.parametrize('reader', [read_members, load_base])
def test_a_changed_bit_is_refused(model, tmp_path, reader):
    path = tmp_path / 'm.pth'
    if reader is read_members:
        save_members(path, [member(model)], fingerprint(model))
    else:
        torch.save(model.state_dict(), path)
    content = bytearray(path.read_bytes())
    weight = model.backbone.bn1.weight.detach().numpy().tobytes()
    # The lowest bit of the exponent: half the value, or twice.
    content[content.index(weight) + 2] ^= 1 << 7
    path.write_bytes(content)
    with pytest.raises(ValueError, match='m.pth is damaged: a checksum'):
        reader(path) if reader is read_members else reader(model, path)


def test_a_truncated_file_is_refused(model, tmp_path):
    path = tmp_path / 'm.pth'
    save_members(path, [member(model)], fingerprint(model))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match='truncated'):
        read_members(path)


class Malicious:

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path, )


def test_a_file_that_may_not_be_read_is_not_called_damaged(
        tmp_path, monkeypatch):
    """Root may read every file, so its open is replaced."""
    path = tmp_path / 'secret.pth'
    path.touch()

    def refuse(self, *_):
        raise PermissionError(13, 'Permission denied', str(self))

    monkeypatch.setattr(type(path), 'open', refuse)
    with pytest.raises(PermissionError, match='secret.pth'):
        read_members(path)


@pytest.mark.parametrize('reader', ['member', 'base'])
def test_a_malicious_pickle_does_not_run(model, tmp_path, reader):
    path, proof = tmp_path / 'm.pth', tmp_path / 'proof'
    torch.save(dict(state_dict=Malicious(str(proof))), path)
    with pytest.raises(ValueError, match='cannot be read'):
        if reader == 'member':
            read_members(path)
        else:
            load_base(model, path)
    assert not proof.exists()
    path.write_bytes(pickle.dumps(Malicious(str(proof))))
    with pytest.raises(ValueError, match='cannot be read'):
        read_members(path)
    assert not proof.exists()


def test_a_missing_file_and_a_foreign_one_are_named(model, tmp_path):
    with pytest.raises(FileNotFoundError, match='nowhere.pth'):
        read_members(tmp_path / 'nowhere.pth')
    torch.save(model.state_dict(), tmp_path / 'base.pth')
    with pytest.raises(ValueError, match='not a member file'):
        read_members(tmp_path / 'base.pth')


def test_a_newer_format_is_refused(model, tmp_path):
    path = tmp_path / 'm.pth'
    torch.save(dict(format='abnn_mmseg.members', version=99), path)
    with pytest.raises(ValueError, match='version 99'):
        read_members(path)


def test_a_base_that_does_not_fit_changes_nothing(model, tmp_path):
    path = tmp_path / 'base.pth'
    state = {k: v + 1 for k, v in model.state_dict().items()}
    state.pop('backbone.conv1.weight')
    torch.save(state, path)
    before = model.backbone.bn1.weight.clone()
    with pytest.raises(ValueError, match='backbone.conv1.weight is missing'):
        load_base(model, path)
    assert torch.equal(model.backbone.bn1.weight, before)


def test_a_deeper_network_is_not_taken_for_the_model(model, tmp_path):
    state = model.state_dict()
    state.update({
        name.replace('layer2.1', 'layer2.2'): value
        for name, value in model.state_dict().items() if 'layer2.1' in name})
    torch.save(state, tmp_path / 'deeper.pth')
    with pytest.raises(ValueError, match='larger network.*layer2.2'):
        load_base(model, tmp_path / 'deeper.pth')


def test_half_precision_bases_load_in_float32(model, tmp_path):
    path = tmp_path / 'base.pth'
    torch.save({k: v.half() if v.is_floating_point() else v
                for k, v in model.state_dict().items()}, path)
    load_base(model, path)
    assert model.backbone.conv1.weight.dtype == torch.float32
