"""Changes of ``abnn init`` to the weights and losses of a model."""
from typing import Any, Optional

from mmengine.config import Config
from mmseg.registry import MODELS

from abnn_mmseg.cli.source import Code
from abnn_mmseg.models.architectures import MASK_HEADS

LOSS = 'RandomPriorCrossEntropyLoss'
# Weight of the favoured classes, as in the configs of the package.
WEIGHT = 1.5
# Options of mmseg's loss that ours has, too, with their defaults.
LOSS_OPTIONS = dict(
    use_sigmoid=False, class_weight=None, loss_weight=1.0,
    loss_name='loss_ce')


def resets(part: dict) -> dict:
    """Changes that switch pretrained weights and frozen stages off."""
    changes: dict = {}
    for name, value in part.items():
        if name == 'pretrained' and value:
            changes[name] = False if value is True else None
        elif name == 'init_cfg' and 'Pretrained' in str(value):
            changes[name] = None
        elif name == 'frozen_stages' and isinstance(value, int) and value >= 0:
            changes[name] = -1
        elif isinstance(value, dict) and resets(value):
            changes[name] = resets(value)
    return changes


def why_reset(change: str) -> str:
    """The comment that gives the reasons for a reset."""
    reasons = []
    if 'pretrained' in change or 'init_cfg' in change:
        reasons.append('load_from has all weights')
    if 'frozen_stages' in change:
        reasons.append('norms of all stages train')
    return '; '.join(reasons) + '.'


def change_heads(part: Any, name: str, classes: Optional[int]) -> Any:
    """The change of a head, or of all heads of a list; empty for none."""
    if isinstance(part, dict):
        return _prior(part, classes)
    if not any(_prior(head, classes) for head in part):
        return []
    # A list replaces the base's list, so it names every head.
    changes = []
    for number, head in enumerate(part):
        own = Code(f'_base_.model.{name}[{number}]')
        change = _without_delete(_prior(head, classes))
        changes.append({'*': own, **change} if change else own)
    return changes


def gives_prior(cfg: Config) -> bool:
    """Whether the head that predicts gets the random class prior."""
    return bool(_prior(main_head(cfg), num_classes_of(cfg)))


def why_no_prior(cfg: Config) -> str:
    """A comment for a head that keeps its own loss; empty for others."""
    head = main_head(cfg)
    if gives_prior(cfg):
        return ''
    kind = bare(head['type'])
    reason = ('matches masks' if _is_kind(head, *MASK_HEADS) else
              'has no CrossEntropyLoss of its classes')
    return (f'{kind} {reason}, so it keeps its losses and gets no random '
            'class prior: members differ by noise and order of images.')


def _prior(head: dict, classes: Optional[int]) -> dict:
    """The change that gives a head, or a head inside it, the random prior.

    Heads that do not predict the classes, such as STDC's head for boundaries,
    keep their loss.
    """
    if _is_kind(head, *MASK_HEADS):
        return {}
    nested = {
        name: _prior(part, classes)
        for name, part in head.items()
        if isinstance(part, dict) and 'loss_decode' in part
    }
    nested = {name: change for name, change in nested.items() if change}
    if nested or head.get('num_classes', classes) != classes:
        return nested
    loss = head.get('loss_decode')
    if isinstance(loss, (list, tuple)):
        losses = [_random_prior(part) or part for part in loss]
        return dict(loss_decode=losses) if losses != list(loss) else {}
    if loss is None:
        if not _is_kind(head, 'BaseDecodeHead'):
            return {}
        return dict(loss_decode=dict(type=LOSS, weight=WEIGHT))
    ours = _random_prior(loss)
    return dict(loss_decode=dict(_delete_=True, **ours)) if ours else {}


def _random_prior(loss: dict) -> Optional[dict]:
    """The random prior that replaces a loss; None if the loss is kept."""
    if bare(loss['type']) != 'CrossEntropyLoss' or loss.get('use_mask'):
        return None
    options = {
        name: loss[name]
        for name, default in LOSS_OPTIONS.items()
        if loss.get(name, default) != default
    }
    return dict(type=LOSS, weight=WEIGHT, **options)


def _without_delete(change: dict) -> dict:
    """A change without ``_delete_``, which has no effect inside lists."""
    return {
        name: ({k: v for k, v in value.items() if k != '_delete_'}
               if isinstance(value, dict) else value)
        for name, value in change.items()
    }


def main_head(cfg: Config) -> dict:
    """The head that predicts: the last one of a cascade."""
    head = cfg.model.decode_head
    return head if isinstance(head, dict) else head[-1]


def num_classes_of(cfg: Config) -> Optional[int]:
    """Number of classes of the main head, or of the head inside it (K-Net)."""
    head = main_head(cfg)
    inner = [part for part in head.values() if isinstance(part, dict)]
    known = [part['num_classes'] for part in (head, *inner)
             if 'num_classes' in part]
    return known[0] if known else None


def _is_kind(head: dict, *names: str) -> bool:
    """Whether a head is of a class with one of these names."""
    kind = MODELS.get(head['type'])
    return kind is not None and any(
        part.__name__ in names for part in kind.__mro__)


def bare(kind: str) -> str:
    """The name of a registered class without its scope."""
    return str(kind).rpartition('.')[2]
