"""Load members together with the weights of a segmentor.

A segmentor calls these functions while it loads weights, so members are also
loaded by mmseg's own tools. They are those that the config's
``posterior.members`` names, or those that a full checkpoint carries.
"""
import json
from collections.abc import Sequence
from typing import Any

import torch
from mmengine.logging import print_log
from torch import Tensor

from abnn_mmseg.members.files import (
    CARRIED,
    FORMAT,
    check_members,
    fingerprint,
    load_members,
    use_members,
)
from abnn_mmseg.members.guarantees import load_guarantees
from abnn_mmseg.models.posteriors.base import Posterior
from abnn_mmseg.models.segmentor import BayesianSegmentor

# In a state dict, carried members are abnn_members.<number>.<tensor>.
DESCRIPTION = f'{CARRIED}description'


def pack(members: Sequence[dict]) -> dict[str, Tensor]:
    """Members as entries of a state dict."""
    state = {
        f'{CARRIED}{number}.{key}': value
        for number, member in enumerate(members)
        for key, value in member['state'].items()
    }
    metas = json.dumps([member['meta'] for member in members])
    state[DESCRIPTION] = torch.frombuffer(
        bytearray(metas.encode()), dtype=torch.uint8)
    return state


def unpack(state: dict[str, Any]) -> list[dict]:
    """Take the members out of a state dict."""
    carried = [key for key in state if key.startswith(CARRIED)]
    if not carried:
        return []
    try:
        metas = json.loads(bytes(state.pop(DESCRIPTION).tolist()))
        members = [dict(state={}, meta=dict(meta)) for meta in metas]
        for key in carried:
            if key != DESCRIPTION:
                number, name = key.removeprefix(CARRIED).split('.', 1)
                members[int(number)]['state'][name] = state.pop(key)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(
            'the members that the checkpoint carries are damaged; write it '
            'again with `abnn members export`.') from error
    return members


def before_load(state: dict[str, Any]) -> list[dict]:
    """Refuse a member file; remove the members from a state dict."""
    if state.get('format') == FORMAT:
        raise ValueError(
            'a member file was given where a checkpoint of the whole network '
            'belongs; give the base checkpoint, and name the member file in '
            'the config: model.posterior.members.')
    return unpack(state)


def after_load(model: BayesianSegmentor, carried: list[dict]) -> None:
    """Load the members that the config names, or the carried ones."""
    posterior = model.posterior
    if posterior.member_files:
        load_members(model, list(posterior.member_files))
        _tell(posterior, ', '.join(map(str, posterior.member_files)))
    elif carried and posterior.takes_members:
        base = fingerprint(model)
        carried = [dict(member, path='the checkpoint', fingerprint=base)
                   for member in carried]
        check_members(model, carried)
        use_members(posterior, carried)
        _tell(posterior, 'the checkpoint')
    else:
        load_guarantees(posterior, ())


def _tell(posterior: Posterior, source: str) -> None:
    print_log(f'{len(posterior.members)} members of {source} make '
              f'{len(posterior)} networks.', 'current')


BayesianSegmentor.before_load = staticmethod(before_load)
BayesianSegmentor.after_load = after_load
