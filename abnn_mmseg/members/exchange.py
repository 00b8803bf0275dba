"""Convert members to ordinary checkpoints and back; average members."""
from collections.abc import Sequence
from pathlib import Path
from typing import Union

import torch
from torch import Tensor, nn

from abnn_mmseg.members.autoload import pack
from abnn_mmseg.members.files import (
    fingerprint,
    kind_of,
    norm_state,
    norms_of,
)
from abnn_mmseg.utils.checkpoints import (
    is_counter,
    is_prior,
    read_checkpoint,
    read_state_dict,
)
from abnn_mmseg.utils.files import atomic_path


def average(members: Sequence[dict]) -> dict:
    """A member whose tensors are the means over all members."""
    check_alike(members)
    if any(kind_of(member) in ('laplace', 'swag') for member in members):
        raise ValueError(
            f'{members[0]["path"]} holds a Gaussian, whose norms are a mean '
            'already; average members that were trained, or samples.')
    states: list[dict[str, Tensor]] = [m['state'] for m in members]
    mean = {
        key: torch.stack([s[key].double() for s in states]).mean(0).to(
            states[0][key].dtype)
        for key in states[0]
    }
    shared = {
        key: members[0]['meta'].get(key)
        for key in ('alpha', 'scope')
        if len({str(m['meta'].get(key)) for m in members}) == 1
    }
    return dict(state=mean, meta=dict(shared, average_of=len(states)))


def check_alike(members: Sequence[dict]) -> None:
    """Raise unless all members belong to one base and one architecture."""
    first = members[0]
    for member in members[1:]:
        if member['fingerprint'] != first['fingerprint']:
            raise ValueError(
                f'{member["path"]} belongs to another base '
                f'({member["fingerprint"]}) than {first["path"]} '
                f'({first["fingerprint"]}); give members of one base only.')
        shapes = [{k: v.shape for k, v in m['state'].items()}
                  for m in (first, member)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f'{member["path"]} has other norm layers than '
                f'{first["path"]}; give members of one config only.')


def export_full(base: Union[str, Path], member: dict,
                path: Union[str, Path]) -> None:
    """Write a standard mmseg checkpoint: the base with the member's norms.

    The member's description is stored in ``meta['member']``.
    """
    _write(base, norms_of(member['state']), path, member=member['meta'])


def export_whole(base: Union[str, Path], members: Sequence[dict],
                 path: Union[str, Path]) -> None:
    """Write one checkpoint with the base and all members."""
    _write(base, pack(members), path)


def _write(base: Union[str, Path], more: dict[str, Tensor],
           path: Union[str, Path], **meta) -> None:
    """Write the base with more entries; its ``meta`` is kept."""
    content = read_checkpoint(base)
    known = dict(content.get('meta') or {}) if 'state_dict' in content else {}
    state = {**read_state_dict(base), **more}
    with atomic_path(path) as temporary:
        torch.save(dict(state_dict=state, meta={**known, **meta}), temporary)


def import_full(model: nn.Module, path: Union[str, Path]) -> dict:
    """Read the member in a full checkpoint of the model's base."""
    state = read_state_dict(path)
    own = model.state_dict()
    norms = norm_state(model)
    shared = [k for k in own if k not in norms and not is_prior(k)]
    other = [
        k for k in shared
        if not is_counter(k) and (
            k not in state or not torch.equal(state[k], own[k].cpu()))
    ]
    if other:
        raise ValueError(
            f'{path} belongs to another base (weights of {fingerprint(model)}'
            f' differ, first {other[0]}); give the base it was trained from.')
    known = read_checkpoint(path).get('meta') or {}
    return dict(
        state={k: state.get(k, v) for k, v in norms.items()},
        meta=dict(known.get('member') or {}, imported_from=Path(path).name))
