from sketches import abnn_config, config

from abnn_mmseg.engine import read_members, train
from abnn_mmseg.utils.checkpoints import read_checkpoint


def test_a_checkpoint_knows_the_cost_of_its_training(sketch, tmp_path):
    cfg = config(sketch, tmp_path, iterations=4)
    cfg.train_cfg.val_interval = 100
    cfg.default_hooks.checkpoint.max_keep_ckpts = -1
    train(cfg)

    def seconds(step):
        return read_checkpoint(tmp_path / f'iter_{step}.pth')['meta'][
            'training_seconds']

    half, all_ = seconds(2), seconds(4)
    assert 0 < half < all_
    # A resumed training adds to what was spent before.
    cfg = config(sketch, tmp_path, iterations=6)
    cfg.train_cfg.val_interval = 100
    cfg.resume = True
    train(cfg)
    assert seconds(6) > all_


def test_a_member_knows_its_cost_over_all_resumes(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.val_dataloader = cfg.val_evaluator = cfg.val_cfg = None
    cfg.default_hooks.checkpoint.max_keep_ckpts = -1
    train(cfg, members=1)
    spent = read_checkpoint(tmp_path / 'member_0' / 'iter_2.pth')['meta'][
        'training_seconds']
    whole = read_members(tmp_path / 'members.pth')[0]['meta']['seconds']
    assert 0 < spent < whole
    # As if the run had ended after its first checkpoint.
    for name in ('members.pth', 'member_0.pth', 'member_0/iter_4.pth'):
        (tmp_path / name).unlink()
    (tmp_path / 'member_0' / 'last_checkpoint').write_text(
        str(tmp_path / 'member_0' / 'iter_2.pth'))
    cfg.resume = True
    train(cfg, members=1)
    resumed = read_members(tmp_path / 'members.pth')[0]['meta']['seconds']
    assert resumed > spent
