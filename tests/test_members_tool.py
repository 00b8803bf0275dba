"""tools/members.py as a user runs it, in this process for speed."""
import runpy
import sys
from pathlib import Path

import pytest
import torch
from sketches import abnn_config

from abnn_mmseg.engine import read_members
from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.members.files import fingerprint, norm_state, save_members

TOOL = Path(__file__).resolve().parents[1] / 'tools' / 'members.py'


@pytest.fixture
def members(monkeypatch, capsys):

    def run(*arguments, code=0):
        monkeypatch.setattr(sys, 'argv', [str(TOOL), *map(str, arguments)])
        try:
            runpy.run_path(str(TOOL), run_name='__main__')
            assert code == 0
        except SystemExit as stop:
            assert stop.code == code
        return ''.join(capsys.readouterr())

    return run


@pytest.fixture
def files(sketch, base, tmp_path):
    """A config and two members."""
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.dump(tmp_path / 'abnn.py')
    model = build_segmentor(cfg, base)
    for k in range(2):
        state = {n: v + k if v.is_floating_point() else v
                 for n, v in norm_state(model).items()}
        save_members(tmp_path / f'{k}.pth', [dict(
            state=state, meta=dict(seed=k, alpha=0.2, scope='all'))],
            fingerprint(model))
    return tmp_path


def test_merge_list_and_verify(members, files, base):
    members('merge', files / '0.pth', files / '1.pth', files / 'all.pth')
    assert members('list', files / 'all.pth').count('all.pth') == 2
    assert '2 members fit' in members(
        'verify', files / 'abnn.py', base, files / 'all.pth')
    members('average', files / 'all.pth', files / 'mean.pth')
    [mean] = read_members(files / 'mean.pth')
    assert mean['meta']['average_of'] == 2


def test_export_and_back(members, files, base):
    members('export', files / 'abnn.py', base, files / '1.pth',
            files / 'full.pth', '--member', '0')
    members('import', files / 'abnn.py', base, files / 'full.pth',
            files / 'back.pth')
    [before], [after] = (
        read_members(files / n) for n in ('1.pth', 'back.pth'))
    assert after['meta']['seed'] == 1
    for name, value in before['state'].items():
        assert torch.equal(after['state'][name], value), name


def test_a_wrong_base_exports_nothing(members, files, base):
    state = torch.load(base)['state_dict']
    state['backbone.conv1.weight'] += 1
    torch.save(state, files / 'other.pth')
    output = members('export', files / 'abnn.py', files / 'other.pth',
                     files / '1.pth', files / 'full.pth', code=1)
    assert 'belongs to another base' in output
    assert not (files / 'full.pth').exists()


def test_a_result_does_not_replace_a_member_unasked(members, files):
    before = (files / '1.pth').read_bytes()
    for command in ('merge', 'average'):
        output = members(command, files / '0.pth', files / '1.pth', code=1)
        assert '1.pth exists' in output and '--overwrite' in output
    assert (files / '1.pth').read_bytes() == before
    members('merge', files / '0.pth', files / '1.pth', '--overwrite')
    assert len(read_members(files / '1.pth')) == 1


def test_a_member_is_not_merged_with_itself(members, files):
    (files / 'link.pth').symlink_to(files / '0.pth')
    (files / 'copy.pth').write_bytes((files / '0.pth').read_bytes())
    (files / 'sub').mkdir()
    for other, reason in (('link.pth', 'the same file'),
                          ('sub/../0.pth', 'the same file'),
                          ('copy.pth', 'the same member')):
        output = members('merge', files / '0.pth', files / '1.pth',
                         f'{files}/{other}', files / 'all.pth', code=1)
        assert reason in output
    assert not (files / 'all.pth').exists()


def test_a_checkpoint_in_place_of_the_config_is_named(members, files, base):
    output = members('verify', base, files / 'abnn.py', files / '0.pth',
                     code=1)
    assert 'base.pth is not a config' in output
