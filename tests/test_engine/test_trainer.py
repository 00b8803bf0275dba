import pytest
import torch
from sketches import abnn_config, config

from abnn_mmseg.engine import read_members, train
from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.engine.trainer import MemberTrainer
from abnn_mmseg.utils.checkpoints import read_state_dict


@pytest.fixture(scope='module')
def trained(sketch, base, tmp_path_factory):
    """Three members, and the rows of the closing table."""
    folder = tmp_path_factory.mktemp('abnn')
    return folder, train(without_augmentation(sketch, folder, base))


def without_augmentation(sketch, folder, base):
    """mmengine does not keep the state of the augmentations' generator."""
    cfg = abnn_config(sketch, folder, base)
    cfg.train_dataloader.dataset.pipeline = cfg.test_pipeline
    cfg.log_level = 'INFO'
    return cfg


def states(folder, count=3):
    return [read_members(folder / f'member_{k}.pth')[0] for k in range(count)]


def test_one_command_trains_all_members(trained):
    folder, rows = trained
    assert [row['name'] for row in rows] == [
        'base', 'member 0', 'member 1', 'member 2', 'all 3']
    assert all('mIoU' in row and 'cal/pooled/NLL' in row for row in rows)
    assert len(read_members(folder / 'members.pth')) == 3


def test_progress_counts_members_and_iterations(trained):
    folder, _ = trained
    log = next((folder / 'member_1').rglob('*.log')).read_text()
    assert 'Member 2 of 3, iteration 4 of 4: 67 % of all' in log


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


def test_the_same_seed_gives_the_same_members(trained, sketch, base,
                                              tmp_path):
    folder, _ = trained
    train(without_augmentation(sketch, tmp_path, base), only=1)
    again = read_members(tmp_path / 'member_1.pth')[0]['state']
    for name, value in states(folder)[1]['state'].items():
        assert torch.equal(value, again[name]), name


def test_a_member_alone_leaves_the_others_untouched(trained, sketch, base,
                                                    tmp_path):
    assert train(without_augmentation(sketch, tmp_path, base), only=2) == []
    assert [p.name for p in tmp_path.glob('member_*.pth')] == ['member_2.pth']


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
        train(without_augmentation(sketch, tmp_path, base))
    monkeypatch.undo()
    first = (tmp_path / 'member_0.pth').stat().st_mtime_ns
    cfg = without_augmentation(sketch, tmp_path, base)
    cfg.resume = True
    train(cfg)
    assert (tmp_path / 'member_0.pth').stat().st_mtime_ns == first
    for ours, theirs in zip(states(tmp_path), states(folder)):
        for name, value in theirs['state'].items():
            assert torch.equal(value, ours['state'][name]), name


def test_checkpoints_of_a_member_hold_the_norms_only(trained):
    folder, _ = trained
    state = read_state_dict(folder / 'member_0' / 'iter_4.pth')
    assert all('bn' in k or 'downsample.1' in k or k.endswith('.eta')
               for k in state)
    assert not any('conv_seg' in k for k in state)


def test_the_best_checkpoint_becomes_the_member(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.train_cfg.val_interval = 2
    cfg.default_hooks.checkpoint.update(save_best='mIoU', max_keep_ckpts=1)
    train(cfg, members=1)
    assert read_members(tmp_path / 'member_0.pth')[0]['meta'][
        'checkpoint'].startswith('best_mIoU')


def test_a_nan_loss_stops_the_member_and_keeps_the_last_file(
        sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.optim_wrapper.optimizer.lr = 1e30
    with pytest.raises(FloatingPointError, match='lower the learning rate'):
        train(cfg)
    assert not (tmp_path / 'member_0.pth').exists()


def test_a_missing_base_is_said_clearly(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path, tmp_path / 'nowhere.pth')
    with pytest.raises(FileNotFoundError, match='load_from'):
        MemberTrainer(cfg, None, None)
    cfg.load_from = None
    with pytest.raises(ValueError, match='load_from is not set'):
        MemberTrainer(cfg, None, None)


def test_missing_data_is_said_before_a_missing_base(tmp_path):
    cfg = abnn_config(tmp_path / 'none', tmp_path, tmp_path / 'nowhere.pth')
    with pytest.raises(FileNotFoundError, match='make_muad_sketch'):
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
