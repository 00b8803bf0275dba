"""Students in member files: what belongs to one, and which base it fits.

A student's file is a member file with one member, whose tensors are those of
a :class:`StudentHead`, whose ``meta['kind']`` is ``'student'`` and whose
``meta['student']`` says where it is from::

    dict(base_norms='1f9d...', teacher=dict(type='BNLPosterior', ...),
         statistics=[...], ...)

So everything that reads, lists, compares and calibrates members does it with
students, too.
"""
import hashlib
from typing import Any

import torch
from torch import Tensor, nn

from abnn_mmseg.models.bnl import bayesian_layers
from abnn_mmseg.models.students import StudentHead
from abnn_mmseg.utils.checkpoints import check_weights

KEY = 'student'


def is_student(member: dict[str, Any]) -> bool:
    """Whether a member is a student."""
    return member['meta'].get('kind') == KEY


def student_state(head: StudentHead) -> dict[str, Tensor]:
    """The tensors of a student's file: kernels in half precision."""
    return {
        name: (value.half() if value.dim() == 4 else value).cpu().clone()
        for name, value in head.state_dict().items()
    }


def norm_fingerprint(model: nn.Module) -> str:
    """A digest of the norms, which the fingerprint of a base leaves out.

    Members have norms of their own, a student reads the base's features.
    """
    digest = hashlib.sha256()
    for name, layer in sorted(bayesian_layers(model).items()):
        for key, value in sorted(layer.state_dict().items()):
            if value.is_floating_point():
                digest.update(f'{name}.{key}'.encode())
                digest.update(value.detach().cpu().contiguous().view(
                    -1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def check_student(model: nn.Module, member: dict[str, Any],
                  base: str) -> None:
    """Raise unless a student belongs to this very base.

    Args:
        model (BayesianSegmentor): With the weights of the base.
        member (dict): Of :func:`read_members`.
        base (str): The model's fingerprint.
    """
    path = member['path']
    norms = norm_fingerprint(model)
    known = member['meta'][KEY].get('base_norms')
    for what, theirs, ours in (('weights', member['fingerprint'], base),
                               ('norms', known, norms)):
        if theirs != ours:
            raise ValueError(
                f'the student {path} belongs to another base ({what} '
                f'{theirs}, loaded are {ours}); load the checkpoint it was '
                'distilled for, or distil this one.')
    check_weights(member['state'], path)
