"""Member files: the norms of members and the fingerprint of their base.

A file holds one member or several. It is a plain dict of tensors and
builtins, read with ``weights_only=True``::

    dict(format='abnn_mmseg.members', version=1, fingerprint='9f86d0...',
         members=[dict(state={'backbone.bn1.weight': ...}, meta={...})])

A fitted Gaussian is a member, too: its norms are the mean, and
:mod:`abnn_mmseg.models.posteriors.gaussian` describes its other tensors.
"""
import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional, Union

import torch
from torch import Tensor, nn

from abnn_mmseg.members.guarantees import KEY, load_guarantees, merged
from abnn_mmseg.members.students import check_student, is_student
from abnn_mmseg.models.bayesian_norm import bayesian_layers
from abnn_mmseg.models.posteriors import Posterior
from abnn_mmseg.models.posteriors.gaussian import SPREAD
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.checkpoints import (
    bytes_of,
    check_surplus,
    check_weights,
    is_counter,
    is_plain_tensor,
    is_prior,
    is_same_state,
    read_checkpoint,
    read_state_dict,
)
from abnn_mmseg.utils.files import atomic_write

FORMAT = 'abnn_mmseg.members'
VERSION = 1
# Prefix of the members that a full checkpoint carries, see autoload.py.
CARRIED = 'abnn_members.'
# The posterior of each kind of member.
KINDS = {None: 'BNLPosterior', 'hmc': 'SampledPosterior',
         'laplace': 'LaplacePosterior', 'student': 'DistilledPosterior',
         'swag': 'SWAGPosterior'}


def fingerprint(model: nn.Module) -> str:
    """A digest of the weights that members share: all but the norms."""
    norms = tuple(f'{name}.' for name in bayesian_layers(model))
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        if not name.startswith(norms) and not is_prior(name):
            digest.update(name.encode())
            digest.update(bytes_of(value) if value.dim() else
                          str(value.item()).encode())
    return digest.hexdigest()[:16]


def norm_state(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the tensors of all norms, by state-dict name."""
    return {
        f'{name}.{key}': value.detach().cpu().clone()
        for name, layer in bayesian_layers(model).items()
        for key, value in layer.state_dict().items()
    }


def norms_of(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The norms in a member's state, without the spread of a Gaussian."""
    return {k: v for k, v in state.items() if not k.startswith(SPREAD)}


def save_members(path: Union[str, Path], members: Sequence[dict],
                 base: str) -> None:
    """Write members, and the fingerprint of their base, into one file."""
    content = io.BytesIO()
    # torch would put the temporary name of a file into its content.
    torch.save(
        dict(
            format=FORMAT,
            version=VERSION,
            fingerprint=base,
            members=list(members)), content)
    atomic_write(path, content.getvalue())


def load_base(model: nn.Module, path: Union[str, Path]) -> None:
    """Load all weights of a network; a mismatch changes nothing."""
    state, own = read_state_dict(path), model.state_dict()
    missing = [k for k in own if k not in state
               and not is_prior(k) and not is_counter(k)]
    other = [k for k in own if k in state and own[k].shape != state[k].shape]
    if missing or other:
        example = (f'{missing[0]} is missing' if missing else
                   f'{other[0]} has shape {tuple(state[other[0]].shape)} '
                   f'instead of {tuple(own[other[0]].shape)}')
        raise ValueError(
            f'{path} does not fit the model: {len(missing) + len(other)} of '
            f'{len(own)} tensors do not match, e.g. {example}; check '
            'num_classes, the backbone and the heads of the config.')
    check_surplus(state, own, path)
    state = {k: v for k, v in state.items()
             if k in own or k.startswith(CARRIED)}
    check_weights(state, str(path))
    model.load_state_dict(state, strict=False)


def is_member_file(path: Union[str, Path]) -> bool:
    """Whether a file is a member file; False for any other checkpoint."""
    return read_checkpoint(path, mmap=True).get('format') == FORMAT


def read_members(paths: Union[str, Path, Sequence]) -> list[dict]:
    """Members of some files, each with the fingerprint of its base."""
    if isinstance(paths, (str, Path)):
        paths = [paths]
    members: list[dict] = []
    for path in paths:
        content = read_checkpoint(path)
        if content.get('format') != FORMAT:
            raise ValueError(f'{path} is not a member file; give the files '
                             'that `abnn train` wrote for an ABNN config.')
        if content.get('version') != VERSION:
            raise ValueError(
                f'{path} has version {content.get("version")} of the member '
                f'format, this package reads {VERSION}; train again or '
                'install the matching abnn-mmseg.')
        if not _is_whole(content):
            raise ValueError(f'{path} is a member file, but it holds no '
                             'complete member; copy it again, or train again.')
        members += [
            dict(member, fingerprint=content['fingerprint'], path=str(path))
            for member in content['members']
        ]
    return members


def read_distinct(paths: Union[str, Path, Sequence]) -> list[dict]:
    """Members of files that share none; raises ValueError if they do."""
    paths = [paths] if isinstance(paths, (str, Path)) else list(paths)
    check_distinct(paths)
    members: list[dict] = []
    for path in paths:
        own = read_members(path)
        for known in members:
            if any(is_same_state(known['state'], m['state']) for m in own):
                raise ValueError(
                    f'{known["path"]} and {path} hold the same member, which '
                    'would count twice; give only one of them, such as '
                    'members.pth alone.')
        members += own
    return members


def check_distinct(paths: Sequence[Union[str, Path]]) -> None:
    """Raise ValueError if a file is named twice, also by another path."""
    seen: dict[Path, Union[str, Path]] = {}
    for path in paths:
        real = Path(path).resolve()
        if real in seen:
            raise ValueError(f'{seen[real]} and {path} are the same file, '
                             'which would count twice; give it once.')
        seen[real] = path


def _is_whole(content: dict) -> bool:
    """Whether a file's content is what :func:`save_members` writes."""
    members = content.get('members')
    return isinstance(content.get('fingerprint'), str) and isinstance(
        members, list) and len(members) > 0 and all(
            isinstance(member, dict) and isinstance(member.get('meta'), dict)
            and isinstance(member.get('state'), dict) and all(
                isinstance(key, str) and is_plain_tensor(value)
                for key, value in member['state'].items())
            for member in members)


def load_members(model: BayesianSegmentor,
                 paths: Union[str, Path, Sequence],
                 posterior: Optional[Posterior] = None) -> None:
    """Load member files into a segmentor's posterior.

    If one does not fit, ValueError is raised and nothing is changed.

    Args:
        model (BayesianSegmentor): With the weights of the base.
        paths (str | Sequence[str]): Member files.
        posterior (Posterior, optional): Defaults to that of the segmentor.
    """
    members = read_distinct(paths)
    check_members(model, members)
    use_members(posterior or model.posterior, members)


def use_members(posterior: Posterior, members: Sequence[dict]) -> None:
    """Set members that were read, and the numbers stored with them."""
    check_kinds(posterior, members)
    posterior.set_members([member['state'] for member in members])
    noise = posterior.noise_settings
    posterior.temperatures = stored(members, 'temperatures', noise)
    posterior.thresholds = stored(members, 'thresholds', noise)
    load_guarantees(posterior, members)


def kind_of(member: dict) -> Optional[str]:
    """``'laplace'``, ``'swag'``, ``'hmc'`` or ``'student'``.

    None is a trained member.
    """
    return member['meta'].get('kind')


def check_kinds(posterior: Posterior, members: Sequence[dict]) -> None:
    """Raise ValueError for members of a kind that a posterior cannot use."""
    for member in members:
        kind = kind_of(member)
        if kind not in posterior.member_kinds:
            wanted = KINDS.get(kind, 'a newer abnn-mmseg')
            raise ValueError(
                f'{member.get("path", "the checkpoint")} holds '
                f'{kind or "trained"} members, which '
                f'{type(posterior).__name__} does not take; use the '
                f'posterior {wanted}.')


def stored(members: Sequence[dict], key: str, noise: str) -> dict:
    """Read what :func:`store` wrote for these members and this noise."""
    known = [m['meta'].get(key) or {} for m in members]
    if any(k != known[0] for k in known) or (
            known[0].get('members') != len(members)
            or known[0].get('noise') != noise):
        return {}
    return {k: v for k, v in known[0].items() if k not in ('members', 'noise')}


def store(path: Union[str, Path], key: str, values: dict,
          noise: str) -> None:
    """Store numbers for all members of a file in that file.

    They hold for a posterior with the ``noise_settings`` of ``noise``.
    """
    members = read_members(path)
    content = {**values, 'members': len(members), 'noise': noise}
    _write_meta(path, members, key, content)


def store_guarantee(path: Union[str, Path], guarantee: dict) -> None:
    """Add a guarantee for all members of a file to that file.

    See :func:`abnn_mmseg.members.guarantees.merged`.
    """
    members = read_members(path)
    known = members[0]['meta'].get(KEY) or []
    _write_meta(path, members, KEY, merged(known, [guarantee]))


def _write_meta(path: Union[str, Path], members: Sequence[dict], key: str,
                content: Any) -> None:
    save_members(path, [
        dict(state=m['state'], meta={**m['meta'], key: content})
        for m in members
    ], members[0]['fingerprint'])


def check_members(model: nn.Module, members: Sequence[dict]) -> None:
    """Raise unless every member belongs to this base."""
    own = norm_state(model)
    base = fingerprint(model)
    for member in members:
        if is_student(member):
            check_student(model, member, base)
            continue
        path, state = member['path'], norms_of(member['state'])
        strange = sorted(set(state) ^ set(own))
        strange += [k for k in own if k in state
                    and own[k].shape != state[k].shape]
        if strange:
            raise ValueError(
                f'{path} is a member of another architecture: {len(strange)} '
                f'norm tensors differ, such as {strange[0]}; use the config '
                'it was trained with.')
        if member['fingerprint'] != base:
            raise ValueError(
                f'{path} belongs to another base (weights '
                f'{member["fingerprint"]}, loaded are {base}); load the '
                'checkpoint it was fine-tuned from.')
        check_weights(member['state'], path)
