"""Checkpoints and member files that are damaged, foreign or hostile."""
import math
import pickle
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from sketches import abnn_config, config
from toys import bayesian_config, build, toy_config

from abnn_mmseg.engine import train
from abnn_mmseg.engine.loading import build_segmentor, split_checkpoints
from abnn_mmseg.members.files import (
    FORMAT,
    VERSION,
    fingerprint,
    load_base,
    load_members,
    norm_state,
    save_members,
)
from abnn_mmseg.utils.checkpoints import map_state_dict, read_checkpoint

VARIANCE = 'backbone.bn1.running_var'


@pytest.fixture(scope='module')
def model():
    return build(bayesian_config())


def content(model, **changes):
    """What a member file holds, with changes."""
    members = [dict(state=norm_state(model), meta={})]
    return dict(dict(format=FORMAT, version=VERSION, members=members,
                     fingerprint=fingerprint(model)), **changes)


def spoiled(model, name, value):
    """Norms with one bad number."""
    state = norm_state(model)
    state[name].view(-1)[0] = value
    return [dict(state=state, meta={})]


def foreign(**options):
    other = build(bayesian_config(**options), seed=1)
    other.backbone.conv1.weight.data += 1
    return content(other)


NOT_WHOLE = 'is a member file, but it holds no complete member'
MEMBERS = {
    'NaN': (lambda m: content(m, members=spoiled(
        m, 'backbone.bn1.weight', float('nan'))),
        'holds NaN or inf, first in backbone.bn1.weight'),
    'inf': (lambda m: content(m, members=spoiled(m, VARIANCE, float('inf'))),
            f'holds NaN or inf, first in {VARIANCE}'),
    'a negative variance': (
        lambda m: content(m, members=spoiled(m, VARIANCE, -1.)),
        f'holds a negative variance, in {VARIANCE}'),
    'another base': (lambda m: foreign(),
                     'belongs to another base .*load the checkpoint'),
    'another architecture': (
        lambda m: foreign(auxiliary=False),
        'is a member of another architecture: .*use the config'),
    'another version': (lambda m: content(m, version=2),
                        'has version 2 of the member format, .* reads 1'),
    'no version': (lambda m: dict(format=FORMAT), 'has version None'),
    'no members': (lambda m: content(m, members=[]), NOT_WHOLE),
    'no list': (lambda m: content(m, members=3), NOT_WHOLE),
    'no state': (lambda m: content(m, members=[dict(meta={})]), NOT_WHOLE),
    'no tensors': (lambda m: content(
        m, members=[dict(state={'a': 1}, meta={})]), NOT_WHOLE),
    'no fingerprint': (lambda m: content(m, fingerprint=None), NOT_WHOLE),
    'a base': (lambda m: m.state_dict(), 'is not a member file; give'),
    'a list': (lambda m: [1, 2], 'holds a list, not a checkpoint'),
}


@pytest.mark.parametrize('case', MEMBERS)
def test_a_bad_member_is_refused_and_changes_nothing(model, tmp_path, case):
    make, message = MEMBERS[case]
    path = tmp_path / 'member.pth'
    torch.save(make(model), path)
    with pytest.raises(ValueError, match=f'member.pth {message}'):
        load_members(model, path)
    assert model.posterior.members == []


def state(model, **changes):
    return {**{k: v.clone() for k, v in model.state_dict().items()},
            **changes}


BASES = {
    'NaN': (lambda m: state(m, **{
        'backbone.conv1.weight': m.backbone.conv1.weight * float('nan')}),
        'holds NaN or inf, first in backbone.conv1.weight'),
    'inf': (lambda m: state(m, **{VARIANCE: m.backbone.bn1.running_var / 0}),
            f'holds NaN or inf, first in {VARIANCE}'),
    'a negative variance': (
        lambda m: state(m, **{VARIANCE: -m.backbone.bn1.running_var}),
        f'holds a negative variance, in {VARIANCE}'),
    'other classes': (
        lambda m: state(m, **{
            'decode_head.conv_seg.weight': torch.zeros(7, 8, 1, 1)}),
        'does not fit the model: .*conv_seg.*check num_classes'),
    'nothing': (lambda m: {}, 'does not fit the model'),
    'a number': (lambda m: dict(state_dict=3),
                 'has a int where its state_dict should be'),
    'no names': (lambda m: {1: torch.zeros(1)}, 'does not fit the model'),
}


@pytest.mark.parametrize('case', BASES)
def test_a_bad_base_is_refused_and_changes_nothing(model, tmp_path, case):
    make, message = BASES[case]
    path = tmp_path / 'base.pth'
    torch.save(make(model), path)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.raises(ValueError, match=f'base.pth {message}'):
        load_base(model, path)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize('data', [
    b'', b'text', b'\x80\x02', b'PK\x03\x04' + bytes(100)],
    ids=['empty', 'text', 'pickle', 'zip'])
def test_bytes_that_are_no_checkpoint_are_refused(tmp_path, data):
    path = tmp_path / 'file.pth'
    path.write_bytes(data)
    with pytest.raises(ValueError, match='file.pth cannot be read as a check'):
        read_checkpoint(path)


@pytest.mark.parametrize('size', [0.2, 0.9, 0.999])
def test_a_truncated_checkpoint_is_refused(model, tmp_path, size):
    path = tmp_path / 'file.pth'
    save_members(path, content(model)['members'], 'abc')
    data = path.read_bytes()
    path.write_bytes(data[:int(size * len(data))])
    with pytest.raises(ValueError, match='truncated'):
        read_checkpoint(path)


def test_a_folder_and_a_missing_file_are_told_apart(tmp_path):
    with pytest.raises(FileNotFoundError, match='is a folder; give a check'):
        read_checkpoint(tmp_path)
    with pytest.raises(FileNotFoundError, match='does not exist; give a che'):
        read_checkpoint(tmp_path / 'nowhere.pth')


class Hostile:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.write_text, (self.path, 'executed')


def as_torch(value, path):
    torch.save(value, path)


def as_old_torch(value, path):
    torch.save(value, path, _use_new_zipfile_serialization=False)


def as_pickle(value, path):
    path.write_bytes(pickle.dumps(value))


@pytest.mark.parametrize('save', [as_torch, as_old_torch, as_pickle])
@pytest.mark.parametrize('read', [
    'member', 'base', 'mapped', 'train', 'inference'])
def test_a_hostile_pickle_is_refused_and_does_not_run(
        model, sketch, base, tmp_path, save, read):
    path, proof = tmp_path / 'hostile.pth', tmp_path / 'proof'
    save(dict(content(model), state_dict=Hostile(proof)), path)
    cfg = config(sketch, tmp_path, iterations=2)
    cfg.load_from = str(path)
    readers = dict(
        member=lambda: load_members(model, path),
        base=lambda: load_base(model, path),
        mapped=lambda: map_state_dict(path),
        train=lambda: train(cfg),
        inference=lambda: build_segmentor(
            abnn_config(sketch, tmp_path, base), [base, path]))
    with pytest.raises(ValueError, match='hostile.pth cannot be read'):
        readers[read]()
    assert not proof.exists()
    if save is as_pickle:
        # It would have run.
        pickle.loads(path.read_bytes())
        assert proof.exists()


def test_a_hostile_checkpoint_to_resume_from_is_passed_over(
        sketch, base, tmp_path):
    """mmengine's fork, asked to read it, would retry without caution."""
    proof = tmp_path / 'proof'
    folder = tmp_path / 'member_0'
    folder.mkdir()
    torch.save(dict(state_dict=Hostile(proof)), folder / 'iter_2.pth')
    (folder / 'last_checkpoint').write_text(str(folder / 'iter_2.pth'))
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.resume = True
    cfg.val_dataloader = cfg.val_cfg = cfg.val_evaluator = None
    train(cfg, members=1)
    assert not proof.exists()
    assert (tmp_path / 'member_0.pth').is_file()


def test_a_checkpoint_of_an_old_torch_is_read_without_being_mapped(tmp_path):
    path = tmp_path / 'old.pth'
    torch.save(dict(weight=torch.ones(2)), path,
               _use_new_zipfile_serialization=False)
    assert torch.equal(map_state_dict(path)['weight'], torch.ones(2))


def test_every_network_of_an_ensemble_must_be_finite(tmp_path, images):
    paths = []
    for number in range(2):
        state = build(toy_config(), seed=number).state_dict()
        if number:
            state['decode_head.conv_seg.weight'][0] = math.nan
        paths.append(tmp_path / f'{number}.pth')
        torch.save(dict(state_dict=state), paths[-1])
    cfg = Config(dict(model=toy_config(
        type='BayesianEncoderDecoder',
        posterior=dict(type='EnsemblePosterior'))))
    model = build_segmentor(cfg, paths, 'cpu')
    with pytest.raises(ValueError, match='1.pth holds NaN or inf'):
        model.predict(images)


def test_a_base_needs_no_counts_of_batches(tmp_path):
    model = build(toy_config(), seed=1)
    state = {name: value for name, value in model.state_dict().items()
             if not name.endswith('num_batches_tracked')}
    torch.save(state, tmp_path / 'old.pth')
    other = build(toy_config(), seed=2)
    load_base(other, tmp_path / 'old.pth')
    for name, value in other.state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name


def test_no_network_counts_twice(tmp_path):
    path = tmp_path / 'a.pth'
    torch.save(build(toy_config()).state_dict(), path)
    (tmp_path / 'link.pth').symlink_to(path)
    with pytest.raises(ValueError, match='are the same file'):
        split_checkpoints([path, tmp_path / 'link.pth'])
