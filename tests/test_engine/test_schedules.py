"""What else a config may ask of the optimizer, through real runs."""
import json

import torch
from sketches import abnn_config

from abnn_mmseg.engine import read_members, train
from abnn_mmseg.utils.checkpoints import read_state_dict


def member(folder):
    return read_members(folder / 'member_0.pth')[0]['state']


def parameters(state):
    return {k: v for k, v in state.items() if k.endswith(('weight', 'bias'))}


def test_clipped_steps_leave_the_prior_with_warm_up_and_steps(
        sketch, base, tmp_path):
    """Without a likelihood, gamma and beta decay in closed form."""
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.optim_wrapper.clip_grad = dict(max_norm=1e-12)
    cfg.optim_wrapper.optimizer.update(lr=0.1, weight_decay=0.5)
    cfg.param_scheduler = [
        dict(type='LinearLR', start_factor=0.5, end=2, by_epoch=False),
        dict(type='MultiStepLR', milestones=[3], gamma=0.1, by_epoch=False)
    ]
    cfg.default_hooks.logger.interval = 1
    cfg.val_dataloader = cfg.val_cfg = cfg.val_evaluator = None
    train(cfg, members=1)
    [scalars] = (tmp_path / 'member_0').rglob('scalars.json')
    lines = [json.loads(line) for line in scalars.read_text().splitlines()]
    rates = [line['lr'] for line in lines]
    assert torch.allclose(torch.tensor(rates),
                          torch.tensor([0.05, 0.1, 0.1, 0.01]))
    own = read_state_dict(base)
    for name, value in parameters(member(tmp_path)).items():
        expected, momentum = own[name].clone(), 0.
        for rate in rates:
            slope = 0.5 * expected
            momentum = 0.9 * momentum + slope
            expected = expected - rate * (slope + 0.9 * momentum)
        assert torch.allclose(value, expected, atol=1e-5), name


def test_with_ema_the_member_is_the_average(sketch, base, tmp_path):
    """Averaging does not change the steps, so plain ones can be averaged."""
    folders = {}
    for name, hooks in (('plain', []),
                        ('ema', [dict(type='EMAHook', momentum=0.5)])):
        folders[name] = tmp_path / name
        cfg = abnn_config(sketch, folders[name], base)
        cfg.custom_hooks = hooks
        cfg.default_hooks.checkpoint.update(interval=1, max_keep_ckpts=-1)
        train(cfg, members=1)
    steps = [
        read_state_dict(folders['plain'] / 'member_0' / f'iter_{i}.pth')
        for i in (1, 2, 3, 4)
    ]
    for name, value in parameters(member(folders['ema'])).items():
        average = steps[0][name]
        for state in steps[1:]:
            average = (average + state[name]) / 2
        assert torch.allclose(value, average, atol=1e-6), name
        assert not torch.equal(value, steps[-1][name])
    resumed = abnn_config(sketch, folders['ema'], base)
    resumed.custom_hooks = [dict(type='EMAHook', momentum=0.5)]
    resumed.resume = True
    finished = member(folders['ema'])
    (folders['ema'] / 'member_0.pth').unlink()
    for i in (3, 4):
        (folders['ema'] / 'member_0' / f'iter_{i}.pth').unlink()
    train(resumed, members=1)
    for name, value in finished.items():
        assert torch.equal(value, member(folders['ema'])[name]), name
