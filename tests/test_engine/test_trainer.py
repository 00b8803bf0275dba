import copy
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from sketches import abnn_config, config

from abnn_mmseg.engine import read_members, train, trainer
from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.engine.member_config import default_hooks
from abnn_mmseg.engine.runners import last_readable
from abnn_mmseg.engine.trainer import MemberTrainer
from abnn_mmseg.members.files import store
from abnn_mmseg.utils.checkpoints import read_checkpoint, read_state_dict

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope='module')
def trained(sketch, base, tmp_path_factory):
    """Three members, and the rows of the closing table."""
    folder = tmp_path_factory.mktemp('abnn')
    return folder, train(augmented(sketch, folder, base))


def augmented(sketch, folder, base):
    """The config, with all that is random in a usual pipeline."""
    cfg = abnn_config(sketch, folder, base)
    cfg.train_dataloader.dataset.pipeline[2:3] = [
        dict(type='RandomResize', scale=(64, 32), ratio_range=(1., 2.),
             keep_ratio=True),
        dict(type='RandomCrop', crop_size=(32, 64), cat_max_ratio=0.75),
        dict(type='RandomFlip', prob=0.5),
        dict(type='PhotoMetricDistortion')
    ]
    cfg.log_level = 'INFO'
    cfg.default_hooks.logger.interval = 2
    return cfg


def assert_same(expected, actual):
    for name, value in expected['state'].items():
        assert torch.equal(value, actual['state'][name]), name
    assert actual['meta']['metrics'] == expected['meta']['metrics']


def states(folder, count=3):
    return [read_members(folder / f'member_{k}.pth')[0] for k in range(count)]


def test_one_command_trains_all_members(trained):
    folder, rows = trained
    assert [row['name'] for row in rows] == [
        'base', 'member 0', 'member 1', 'member 2', 'all 3']
    assert all('mIoU' in row and 'cal/pooled/NLL' in row for row in rows)
    assert len(read_members(folder / 'members.pth')) == 3
    saved = json.loads((folder / 'validation.json').read_text())
    assert saved['all 3']['mIoU'] == pytest.approx(rows[-1]['mIoU'])


def test_progress_counts_members_and_iterations(trained):
    folder, _ = trained
    log = next((folder / 'member_1').rglob('*.log')).read_text()
    assert f'Member 1 (2 of 3) starts; log and checkpoints: {folder}' in log
    assert 'Member 1 (2 of 3), iteration 4 of 4: 67 % of all, 0:00' in log
    # Validation takes time of its own.
    assert 'of training left.' in log


def test_the_log_says_what_is_validated(trained):
    folder, rows = trained
    [log] = (folder / 'validation').rglob('*.log')
    text = log.read_text()
    assert re.findall('Validation of (.*):', text) == [
        'member 0', 'member 1', 'member 2', 'base', 'all 3']


def test_each_member_logs_its_gradients_in_its_own_folder(trained):
    folder, _ = trained
    for k in range(3):
        [scalars] = (folder / f'member_{k}').rglob('scalars.json')
        lines = [json.loads(s) for s in scalars.read_text().splitlines()]
        steps = [line for line in lines if 'log10_grad_variance' in line]
        assert steps and -20 < steps[-1]['log10_grad_variance'] < 20


def test_only_norm_parameters_change(trained, base):
    """Every tensor of the base is compared with every member's."""
    folder, _ = trained
    own = read_state_dict(base)
    for member in states(folder):
        for name, value in member['state'].items():
            is_parameter = name.endswith(('.weight', '.bias'))
            assert torch.equal(own[name], value) != is_parameter, name
    cfg = abnn_config(folder, folder, base)
    model = build_segmentor(cfg, [base, folder / 'members.pth'])
    changed = set(states(folder)[0]['state'])
    for name, value in model.state_dict().items():
        if name not in changed and not name.endswith('.eta'):
            assert torch.equal(value, own[name]), name


def test_a_member_describes_itself(trained):
    folder, rows = trained
    [member] = read_members(folder / 'member_1.pth')
    meta = member['meta']
    assert meta['seed'] == 1 and meta['iterations'] == 4
    assert meta['alpha'] == 0.2 and meta['scope'] == 'all'
    assert len(meta['eta']) == 15
    assert set(meta['versions']) == {
        'abnn_mmseg', 'torch', 'mmengine', 'mmseg'}
    assert meta['metrics'] == {
        k: v for k, v in rows[2].items() if k != 'name'}
    assert len(member['fingerprint']) == 16


def test_the_config_may_name_the_members(trained, base):
    folder, _ = trained
    cfg = abnn_config(folder, folder, base)
    cfg.model.posterior.members = str(folder / 'members.pth')
    assert len(build_segmentor(cfg, base).posterior) == 3 * 2


def test_members_differ_in_prior_seed_and_weights(trained):
    folder, _ = trained
    metas = [m['meta'] for m in states(folder)]
    assert [m['seed'] for m in metas] == [0, 1, 2]
    assert len({tuple(m['eta']) for m in metas}) == 3
    weights = [m['state']['backbone.bn1.weight'] for m in states(folder)]
    assert not torch.equal(weights[0], weights[1])


def test_a_member_alone_with_other_workers_is_the_same(
        trained, sketch, base, tmp_path):
    folder, _ = trained
    cfg = augmented(sketch, tmp_path, base)
    cfg.train_dataloader.num_workers = 2
    assert train(cfg, only=1) == []
    assert [p.name for p in tmp_path.glob('member_*.pth')] == ['member_1.pth']
    assert_same(states(folder)[1], read_members(tmp_path / 'member_1.pth')[0])


def test_resume_goes_on_where_it_stopped(trained, sketch, base, tmp_path,
                                         monkeypatch):
    """Stop in member 1 after its first checkpoint; end up bit-identical."""
    folder, _ = trained
    from abnn_mmseg.engine.hooks import MemberHook
    original = MemberHook.before_train_iter

    def interrupted(self, runner, *args, **kwargs):
        if runner.work_dir.endswith('member_1') and runner.iter == 3:
            raise KeyboardInterrupt
        original(self, runner, *args, **kwargs)

    monkeypatch.setattr(MemberHook, 'before_train_iter', interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(augmented(sketch, tmp_path, base))
    monkeypatch.undo()
    first = (tmp_path / 'member_0.pth').stat().st_mtime_ns
    cfg = augmented(sketch, tmp_path, base)
    cfg.resume = True
    train(cfg)
    assert (tmp_path / 'member_0.pth').stat().st_mtime_ns == first
    for ours, theirs in zip(states(tmp_path), states(folder)):
        assert_same(theirs, ours)


def test_resume_refuses_members_of_other_settings(trained, sketch, base,
                                                  tmp_path):
    shutil.copy(trained[0] / 'member_0.pth', tmp_path)
    before = (tmp_path / 'member_0.pth').read_bytes()
    cfg = augmented(sketch, tmp_path, base)
    cfg.resume = True
    cfg.model.posterior.alpha = 0.37
    with pytest.raises(ValueError, match='trained with alpha=.*says 0.37'):
        train(cfg)
    cfg = augmented(sketch, tmp_path, base)
    cfg.resume = True
    cfg.model.finetune = 'all'
    with pytest.raises(ValueError, match="finetune='scope', .*says 'all'"):
        train(cfg)
    assert (tmp_path / 'member_0.pth').read_bytes() == before


KILLER = '''
import os, signal
from mmengine.hooks import Hook
from mmseg.registry import HOOKS

@HOOKS.register_module()
class Killer(Hook):

    def before_train_iter(self, runner, *args, **kwargs):
        if runner.iter == 3:
            os.kill(os.getpid(), signal.SIGKILL)
'''


def test_a_killed_process_resumes_to_the_same_member(trained, sketch, base,
                                                     tmp_path):
    folder, _ = trained
    (tmp_path / 'killer.py').write_text(KILLER)
    cfg = augmented(sketch, tmp_path, base)
    killed = copy.deepcopy(cfg)
    killed.custom_imports.imports.append('killer')
    killed.custom_hooks = [dict(type='Killer')]
    killed.dump(tmp_path / 'killed.py')
    process = subprocess.run(
        [sys.executable, ROOT / 'tools' / 'train.py', tmp_path / 'killed.py',
         '--member', '0'], cwd=ROOT, capture_output=True, env=dict(
             os.environ, PYTHONPATH=f'{ROOT}:{tmp_path}', OMP_NUM_THREADS='1'))
    assert process.returncode == -signal.SIGKILL
    assert (tmp_path / 'member_0' / 'iter_2.pth').is_file()
    cfg.resume = True
    train(cfg, only=0)
    assert_same(states(folder)[0], read_members(tmp_path / 'member_0.pth')[0])


def test_a_checkpoint_cut_off_in_writing_is_passed_over(tmp_path):
    for name in ('iter_2.pth', 'iter_4.pth'):
        torch.save(dict(state_dict=dict(weight=torch.ones(100))),
                   tmp_path / name)
    assert last_readable(tmp_path) == str(tmp_path / 'iter_4.pth')
    content = (tmp_path / 'iter_4.pth').read_bytes()
    (tmp_path / 'iter_4.pth').write_bytes(content[:200])
    assert last_readable(tmp_path) == str(tmp_path / 'iter_2.pth')
    (tmp_path / 'iter_2.pth').unlink()
    assert last_readable(tmp_path) is None


def test_checkpoints_of_a_member_hold_the_norms_only(trained):
    folder, _ = trained
    state = read_state_dict(folder / 'member_0' / 'iter_4.pth')
    assert all('bn' in k or 'downsample.1' in k or k.endswith('.eta')
               for k in state)
    assert not any('conv_seg' in k for k in state)


def test_the_best_checkpoint_becomes_the_member(sketch, base, tmp_path):
    """The one that validates best, be it the last or not."""
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.optim_wrapper.optimizer.lr = 1.
    cfg.train_cfg.val_interval = 2
    cfg.default_hooks.checkpoint.update(
        save_best='cal/pooled/NLL', rule='less', interval=1, max_keep_ckpts=1)
    train(cfg, members=1)
    folder = tmp_path / 'member_0'
    assert [p.name for p in folder.glob('iter_*')] == ['iter_4.pth']
    [member] = read_members(tmp_path / 'member_0.pth')
    [best] = folder.glob('best_*.pth')
    assert member['meta']['checkpoint'] == best.name
    assert best.name.endswith(f"iter_{member['meta']['iterations']}.pth")
    state = read_state_dict(best)
    for name, value in member['state'].items():
        assert torch.equal(state[name], value), name


def test_a_work_folder_may_move_before_it_is_resumed(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path / 'old', base)
    cfg.default_hooks.checkpoint.update(
        save_best='cal/pooled/NLL', rule='less')
    train(copy.deepcopy(cfg), members=1)
    [expected] = read_members(tmp_path / 'old/members.pth')
    shutil.move(tmp_path / 'old/member_0', tmp_path / 'new/member_0')
    cfg.work_dir, cfg.resume = str(tmp_path / 'new'), True
    train(cfg, members=1)
    [member] = read_members(tmp_path / 'new/members.pth')
    assert member['meta']['checkpoint'] == expected['meta']['checkpoint']
    assert_same(expected, member)


def test_two_processes_do_not_train_one_member(sketch, base, tmp_path,
                                               monkeypatch):
    def taken(folder):
        raise FileExistsError(folder.name)

    monkeypatch.setattr(trainer, 'claimed', taken)
    with pytest.raises(FileExistsError, match='member_1'):
        train(abnn_config(sketch, tmp_path, base), members=2, only=1)


def test_full_checkpoints_stay_possible(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.custom_hooks = [dict(type='MemberHook', full_checkpoints=True)]
    train(cfg, members=1)
    full = tmp_path / 'member_0' / 'iter_4.pth'
    assert set(read_state_dict(full)) >= set(read_state_dict(base))
    assert not build_segmentor(cfg, full).posterior.members


def test_a_nan_loss_stops_the_member_and_keeps_the_last_file(
        sketch, base, tmp_path):
    """The third step explodes; with one file kept, it is the second's."""
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.param_scheduler = [dict(
        type='MultiStepLR', milestones=[2], gamma=1e38, by_epoch=False)]
    cfg.default_hooks.checkpoint.update(interval=1, max_keep_ckpts=1)
    with pytest.raises(FloatingPointError, match='lower the learning rate'):
        train(cfg)
    assert not (tmp_path / 'member_0.pth').exists()
    [good] = (tmp_path / 'member_0').glob('*.pth')
    assert good.name == 'iter_2.pth'
    assert all(torch.isfinite(v).all() for v in read_state_dict(good).values())


def test_a_missing_base_is_said_clearly(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path, tmp_path / 'nowhere.pth')
    with pytest.raises(FileNotFoundError, match='load_from'):
        MemberTrainer(cfg, None, None)
    cfg.load_from = None
    with pytest.raises(ValueError, match='load_from is not set'):
        MemberTrainer(cfg, None, None)


def test_missing_data_is_said_before_a_missing_base(tmp_path):
    cfg = abnn_config(tmp_path / 'none', tmp_path, tmp_path / 'nowhere.pth')
    with pytest.raises(FileNotFoundError, match='make-muad-sketch'):
        MemberTrainer(cfg, None, None)


def test_a_base_with_other_classes_is_refused(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.model.decode_head.num_classes = 7
    cfg.model.decode_head.loss_decode.num_classes = 7
    with pytest.raises(ValueError, match='does not fit the model.*conv_seg'):
        MemberTrainer(cfg, None, None)


def test_a_member_that_does_not_exist_is_refused(sketch, base, tmp_path):
    with pytest.raises(ValueError, match='--member 3 does not exist'):
        train(abnn_config(sketch, tmp_path, base), only=3)


def test_a_plain_config_trains_a_plain_network(sketch, tmp_path):
    cfg = config(sketch, tmp_path, iterations=2)
    assert train(cfg) == []
    assert (tmp_path / 'iter_2.pth').is_file()


def test_a_config_may_leave_validation_out(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.validate_members = False
    cfg.train_cfg.max_iters = 1
    assert train(cfg, members=1) == []
    assert 'metrics' not in read_members(tmp_path / 'member_0.pth')[0]['meta']
    assert not (tmp_path / 'validation').exists()


def test_a_new_start_leaves_nothing_of_the_old_training(trained, sketch, base,
                                                        tmp_path):
    """Stopped and resumed, it must not take old members for its own."""
    shutil.copytree(trained[0], tmp_path, dirs_exist_ok=True)
    cfg = augmented(sketch, tmp_path, base)
    cfg.optim_wrapper.optimizer.lr *= 2
    trainer = MemberTrainer(cfg, None, None, overwrite=True)

    def stop(number):
        raise KeyboardInterrupt

    trainer._train = stop
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    assert not list(tmp_path.glob('member_*.pth'))
    assert not list(tmp_path.glob('member_*/*.pth'))
    # What was complete stays until there is something better.
    assert len(read_members(tmp_path / 'members.pth')) == 3


def test_members_merged_again_keep_what_was_stored_with_them(
        trained, sketch, base, tmp_path):
    shutil.copytree(trained[0], tmp_path, dirs_exist_ok=True)
    store(tmp_path / 'members.pth', 'temperatures', dict(centre=1.5), '')
    cfg = augmented(sketch, tmp_path, base)
    cfg.resume = True
    train(cfg)
    for member in read_members(tmp_path / 'members.pth'):
        assert member['meta']['temperatures']['centre'] == 1.5
    # Another number of members are other members.
    train(cfg, members=2)
    first, second = read_members(tmp_path / 'members.pth')
    assert 'temperatures' not in first['meta']


def test_norms_left_as_they_are_do_not_drift(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.val_dataloader = cfg.val_evaluator = cfg.val_cfg = None
    cfg.model.convert = ['decode_head']
    train(cfg, members=2)
    before = read_state_dict(base)
    model = build_segmentor(cfg, [base, tmp_path / 'members.pth'])
    for name, value in model.backbone.state_dict().items():
        assert torch.equal(value, before[f'backbone.{name}']), name


@pytest.mark.parametrize('count', [0, -1])
def test_no_members_are_refused(sketch, base, tmp_path, count):
    with pytest.raises(ValueError, match='to at least 1'):
        train(abnn_config(sketch, tmp_path, base), members=count)


def test_a_posterior_without_members_is_refused(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.model.posterior = dict(type='DropoutPosterior')
    with pytest.raises(ValueError, match='DropoutPosterior has no members'):
        train(cfg)


def test_finished_members_are_not_replaced_unasked(trained, sketch, base,
                                                   tmp_path):
    folder, _ = trained
    for name in ('member_0.pth', 'members.pth'):
        shutil.copy(folder / name, tmp_path)
        before = (tmp_path / name).read_bytes()
        cfg = augmented(sketch, tmp_path, base)
        with pytest.raises(FileExistsError, match=f'{name} is finished.*'
                           '--resume.*--overwrite'):
            train(cfg, 1)
        assert (tmp_path / name).read_bytes() == before
        (tmp_path / name).unlink()
    shutil.copy(folder / 'member_0.pth', tmp_path)
    cfg.train_cfg.max_iters = 2
    cfg.validate_members = False
    train(cfg, 1, overwrite=True)
    [member] = read_members(tmp_path / 'members.pth')
    assert member['meta']['iterations'] == 2


@pytest.mark.parametrize('option, value', [
    ('optim_wrapper.optimizer.lr', 0.5), ('train_cfg.max_iters', 6),
    ('train_dataloader.batch_size', 1),
    ('model.decode_head.dropout_ratio', 0.5)])
def test_resume_joins_members_of_one_training_only(
        trained, sketch, base, tmp_path, option, value):
    folder, _ = trained
    shutil.copy(folder / 'member_0.pth', tmp_path)
    cfg = augmented(sketch, tmp_path, base)
    cfg.merge_from_dict({'resume': True, option: value})
    with pytest.raises(ValueError, match=f'trained with {option}=.* the '
                       f'config says {value!r}'):
        train(cfg, 2)


def test_an_unfinished_member_goes_on_with_its_settings_only(
        trained, sketch, base, tmp_path):
    folder, _ = trained
    shutil.copytree(folder / 'member_0', tmp_path / 'member_0')
    cfg = augmented(sketch, tmp_path, base)
    cfg.resume = True
    cfg.optim_wrapper.optimizer.lr = 0.5
    with pytest.raises(ValueError, match='member_0 was trained with optim_w'):
        train(cfg, 1)


def changed(base, folder):
    """The base with other norms: its fingerprint leaves them out."""
    state = read_state_dict(base)
    state['backbone.bn1.bias'] = state['backbone.bn1.bias'] + 0.1
    torch.save(state, folder / 'other.pth')
    return folder / 'other.pth'


@pytest.mark.parametrize('left', ['member_0', 'member_0.pth'])
def test_members_of_one_training_start_from_one_base(
        trained, sketch, base, tmp_path, left):
    folder, _ = trained
    copy_of = shutil.copytree if (folder / left).is_dir() else shutil.copy
    copy_of(folder / left, tmp_path / left)
    cfg = augmented(sketch, tmp_path, changed(base, tmp_path))
    cfg.resume = True
    with pytest.raises(ValueError, match=f'{left} was trained with base='):
        train(cfg, 1)


def test_how_data_is_loaded_does_not_matter_to_resume(trained, sketch, base,
                                                      tmp_path):
    folder, _ = trained
    shutil.copy(folder / 'member_0.pth', tmp_path)
    cfg = augmented(sketch, tmp_path, base)
    cfg.resume, cfg.validate_members = True, False
    cfg.train_dataloader.num_workers = 3
    cfg.model.posterior.samples = 4
    train(cfg, 1)
    assert len(read_members(tmp_path / 'members.pth')) == 1


def test_a_base_resumes_its_own_checkpoint_or_starts_from_load_from(
        sketch, base, tmp_path):
    cfg = config(sketch, tmp_path)
    cfg.load_from, cfg.resume, cfg.log_level = str(base), True, 'INFO'
    train(copy.deepcopy(cfg))
    log = next(tmp_path.rglob('*.log')).read_text()
    assert 'Training starts at iteration 0' in log
    assert 'Iter(train) [3/4]' in log
    first = read_checkpoint(tmp_path / 'iter_4.pth')['meta']['iter']
    cfg.train_cfg.max_iters = 6
    train(copy.deepcopy(cfg))
    log = max(tmp_path.rglob('*.log'), key=os.path.getmtime).read_text()
    assert f'continues from {tmp_path}/iter_4.pth' in log
    assert (first, read_checkpoint(tmp_path / 'iter_6.pth')['meta'][
        'iter']) == (4, 6)


@pytest.mark.parametrize('own, loop, saved', [
    (dict(by_epoch=False, interval=4000), dict(max_iters=800), (80, False)),
    (dict(interval=1), dict(max_iters=300), (30, False)),
    (dict(by_epoch=False, interval=5), dict(max_iters=800), (5, False)),
    (None, dict(max_iters=20), (10, False)),
    (dict(by_epoch=False, interval=500), dict(max_epochs=20), (2, True)),
])
def test_members_are_saved_often_whatever_the_base_s_interval(
        own, loop, saved):
    hooks = default_hooks(Config(dict(
        train_cfg=loop, default_hooks=dict(checkpoint=own, logger=None))))
    assert (hooks['checkpoint']['interval'],
            hooks['checkpoint']['by_epoch']) == saved
    assert hooks['checkpoint']['max_keep_ckpts'] == 1
    assert hooks['logger'] is None


@pytest.mark.parametrize('own, loop, logged', [
    (dict(interval=50), dict(max_iters=48), 9),
    (dict(interval=50), dict(max_iters=4), 1),
    (dict(interval=50), dict(max_iters=800), 50),
    (dict(), dict(max_iters=48), 9),
    (dict(interval=50), dict(max_epochs=20), 50),
])
def test_members_log_their_loss_whatever_the_base_s_interval(
        own, loop, logged):
    own = dict(type='LoggerHook', **own)
    cfg = Config(dict(train_cfg=loop, default_hooks=dict(logger=own)))
    hook = default_hooks(cfg)['logger']
    assert hook == dict(own, interval=logged)
    assert dict(cfg.default_hooks.logger) == own


def test_the_console_has_few_lines_and_the_file_all(
        sketch, base, tmp_path, capfd):
    cfg = augmented(sketch, tmp_path, base)
    cfg.optim_wrapper.optimizer.weight_decay = 0.
    cfg.optim_wrapper.paramwise_cfg = dict(norm_decay_mult=0.)
    train(cfg, members=2)
    said = capfd.readouterr()
    lines = (said.out + said.err).splitlines()
    log = next((tmp_path / 'member_1').rglob('*.log')).read_text()
    for word in ('paramwise_options', 'System environment', 'Config:',
                 'Hooks will be executed'):
        assert word in log and word not in said.out + said.err
    assert 'Member 1 (2 of 2) starts; log and checkpoints: ' in log
    assert len(lines) < 200 < len(log.splitlines())
