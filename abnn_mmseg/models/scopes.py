"""Where noise lives: names of layers selected by a scope."""
import fnmatch
from typing import Dict, Iterable, List, Sequence, Union

from torch import nn

Scope = Union[str, Sequence[str]]


def select(names: Iterable[str], patterns: Scope) -> List[str]:
    """Names that equal, lie below, or match (``*``, ``?``) a pattern."""
    patterns = [patterns] if isinstance(patterns, str) else list(patterns)
    return [
        name for name in names if any(
            name == p or name.startswith(f'{p}.') or fnmatch.fnmatch(name, p)
            for p in patterns)
    ]


def resolve(layers: Dict[str, nn.Module], scope: Scope) -> List[str]:
    """The layers of a scope, or a sentence that says why there are none.

    Args:
        layers (dict): The model's Bayesian layers by name.
        scope (str | Sequence[str]): ``'all'``, ``'late'`` (what follows the
            largest convolution of the decode head), or module names such as
            ``'decode_head'`` and ``'backbone.layer4'``, or patterns.
    """
    if scope == 'all':
        chosen = list(layers)
    elif scope == 'late':
        chosen = _late(list(layers))
    else:
        chosen = select(layers, scope)
    if not chosen:
        tops = sorted({'.'.join(name.split('.')[:2]) for name in layers})
        raise ValueError(
            f'scope={scope!r} matches none of the {len(layers)} Bayesian '
            "layers; write 'all', 'late', or module names such as "
            f'{", ".join(tops)}.')
    return chosen


def _late(names: List[str]) -> List[str]:
    """Heads fuse their branches in a ``*bottleneck`` or ``fusion_conv``."""
    head = select(names, 'decode_head')
    fusion = ('bottleneck', 'sep_bottleneck', 'fpn_bottleneck', 'fusion_conv')
    late = [name for name in head if any(p in fusion for p in name.split('.'))]
    return late or head[-1:]
