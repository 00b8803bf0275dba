"""Select the layers that have noise, by their names."""
import fnmatch
import re
from collections.abc import Iterable, Sequence
from typing import Union

from abnn_mmseg.models.architectures import DECODE_HEAD, FUSIONS, STAGES
from abnn_mmseg.utils.choices import closest

Scope = Union[str, Sequence[str]]


def select(names: Iterable[str], patterns: Scope) -> list[str]:
    """Names that match a pattern (``*``, ``?``) or lie below a match."""
    patterns = [patterns] if isinstance(patterns, str) else list(patterns)
    return [
        name for name in names if any(
            name == p or name.startswith(f'{p}.') or fnmatch.fnmatch(name, p)
            for p in patterns)
    ]


def resolve(layers: Iterable[str], scope: Scope) -> list[str]:
    """The layers of a scope; raise ValueError if there are none.

    Args:
        layers (Iterable[str]): Names of the model's Bayesian layers.
        scope (str | Sequence[str]): ``'all'``; ``'late'``, the last layers of
            the decode head, from the fusion of its branches; ``'stage1'`` and
            so on, the stages of the backbone, whatever their names are; module
            names such as ``'decode_head'`` and ``'backbone.layer4'``;
            patterns; or several of these.
    """
    names = list(layers)
    parts = [scope] if isinstance(scope, str) else list(scope)
    chosen = set()
    if not parts:
        raise ValueError(f"scope={scope!r} names no layer; write 'all', or "
                         'module names.')
    for part in parts:
        found = _part(names, part)
        if not found:
            tops = sorted({'.'.join(name.split('.')[:2]) for name in names})
            near = ['all', 'late', DECODE_HEAD, 'backbone', *tops, *names]
            raise ValueError(
                f'scope={part!r} matches none of the {len(names)} Bayesian '
                f'layers; did you mean {closest(part, near)!r}? Write '
                "'all', 'late', 'stage4', or module names such as "
                f'{", ".join(tops)}.')
        chosen.update(found)
    return [name for name in names if name in chosen]


def _part(names: list[str], part: str) -> list[str]:
    """The layers of one part of a scope."""
    if part == 'all':
        return names
    if part == 'late':
        return _late(names)
    stage = re.fullmatch(r'(?:backbone\.)?stage(\d+)', part)
    return (stage and _stage(names, int(stage[1]))) or select(names, part)


def _stage(names: list[str], n: int) -> list[str]:
    """Stage ``n`` of the backbone, counted from 1."""
    for convention in STAGES:
        stage, *around = (
            f'backbone.{name.format(n=n, i=n - 1)}' for name in convention)
        if select(names, stage):
            return select(names, [stage, *around])
    return []


def _late(names: list[str]) -> list[str]:
    """The layers of the decode head, from the fusion of its branches."""
    head = select(names, DECODE_HEAD)
    for fusions in FUSIONS:
        late = [n for n in head if set(fusions) & set(n.split('.'))]
        if late:
            return late
    return head[-1:]
