from sketches import config

from abnn_mmseg.engine import train
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
