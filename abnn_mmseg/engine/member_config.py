"""The config of one member, from that of all."""
from typing import Any

from mmengine.config import Config, ConfigDict

# A training has this many checkpoints, at least 10 iterations apart.
SAVES, FEW = 10, 10
# ... and logs its loss at least this often.
LOGS = 5


def member_loop(cfg: ConfigDict) -> ConfigDict:
    """The training loop of one member, from the ``train_cfg`` of all."""
    loop = ConfigDict({k: v for k, v in cfg.items() if k != 'members'})
    if loop.get('type') in (None, 'MemberTrainLoop'):
        loop.type = ('EpochBasedTrainLoop' if 'max_epochs' in loop else
                     'IterBasedTrainLoop')
    return loop


def default_hooks(cfg: Config) -> dict[str, Any]:
    """The config's default hooks, with about ten checkpoints and some losses.

    The intervals in the config are often those of the base, whose training is
    longer or counts epochs.

    Args:
        cfg (Config): Its ``train_cfg`` is that of one member.
    """
    hooks = dict(cfg.get('default_hooks') or {})
    checkpoint = dict(hooks.get('checkpoint') or dict(type='CheckpointHook'))
    by_epoch = 'max_epochs' in cfg.train_cfg
    last = cfg.train_cfg['max_epochs' if by_epoch else 'max_iters']
    longest = max(1 if by_epoch else FEW, last // SAVES)
    own = checkpoint.get('interval', longest)
    if own < 1 or checkpoint.get('by_epoch', True) != by_epoch:
        own = longest
    checkpoint.setdefault('max_keep_ckpts', 1)
    checkpoint.update(by_epoch=by_epoch, interval=min(own, longest))
    hooks['checkpoint'] = checkpoint
    if hooks.get('logger') and not by_epoch:
        often = min(hooks['logger'].get('interval', FEW), max(1, last // LOGS))
        hooks['logger'] = dict(hooks['logger'], interval=often)
    return hooks


def with_hooks(cfg: Config, *types: str) -> list:
    """The config's custom hooks, and these types if they are missing."""
    hooks = list(cfg.get('custom_hooks', []))
    named = {hook['type'] for hook in hooks}
    return hooks + [dict(type=t) for t in types if t not in named]
