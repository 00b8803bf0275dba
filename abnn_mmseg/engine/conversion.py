"""Members into ordinary checkpoints, and back; and their average."""
from pathlib import Path
from typing import Dict, List, Sequence, Union

import torch
from torch import Tensor, nn

from ..utils.checkpoints import read_state_dict
from ..utils.files import atomic_path
from .members import fingerprint, norm_state


def average(members: Sequence[dict]) -> dict:
    """One member whose tensors are the mean of all: their centre."""
    states: List[Dict[str, Tensor]] = [m['state'] for m in members]
    mean = {
        key: torch.stack([s[key].double() for s in states]).mean(0).to(
            states[0][key].dtype)
        for key in states[0]
    }
    return dict(state=mean, meta=dict(average_of=len(states)))


def export_full(base: Union[str, Path], member: dict,
                path: Union[str, Path]) -> None:
    """A standard mmseg checkpoint: the base with the member's norms."""
    state = {**read_state_dict(base), **member['state']}
    with atomic_path(path) as temporary:
        torch.save(dict(state_dict=state, meta=dict(member['meta'])),
                   temporary)


def import_full(model: nn.Module, path: Union[str, Path]) -> dict:
    """The member in a full checkpoint of the base that ``model`` has."""
    state = read_state_dict(path)
    own = model.state_dict()
    norms = norm_state(model)
    shared = [k for k in own if k not in norms and not k.endswith('.eta')]
    other = [
        k for k in shared
        if k not in state or not torch.equal(state[k], own[k].cpu())
    ]
    if other:
        raise ValueError(
            f'{path} belongs to another base (weights of {fingerprint(model)}'
            f' differ, first {other[0]}); give the base it was trained from.')
    return dict(state={k: state[k] for k in norms}, meta=dict(
        imported_from=Path(path).name))
