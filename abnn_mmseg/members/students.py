"""Students in member files, and the check that they fit a base.

A student's file is a member file with one member, whose tensors are those of
a :class:`Student`. Its ``meta['kind']`` is ``'student'``, and its
``meta['student']`` describes the base and the teacher::

    dict(base_norms='1f9d...', teacher=dict(type='BNLPosterior', ...),
         statistics=[...], ...)

So students can be listed, compared and calibrated like members.
"""
import hashlib
from typing import Any

from torch import Tensor, nn

from abnn_mmseg.models.bayesian_norm import bayesian_layers
from abnn_mmseg.models.students import Student
from abnn_mmseg.utils.checkpoints import bytes_of, check_weights

KEY = 'student'


def is_student(member: dict[str, Any]) -> bool:
    """Whether a member is a student."""
    return member['meta'].get('kind') == KEY


def student_state(student: Student) -> dict[str, Tensor]:
    """The tensors to store for a student, with kernels in half precision."""
    return {
        name: (value.half() if value.dim() == 4 else value).cpu().clone()
        for name, value in student.state_dict().items()
    }


def norm_fingerprint(model: nn.Module) -> str:
    """A digest of the norms, which the fingerprint of a base leaves out.

    A student reads the features of the base, which depend on its norms.
    """
    digest = hashlib.sha256()
    for name, layer in sorted(bayesian_layers(model).items()):
        for key, value in sorted(layer.state_dict().items()):
            if value.is_floating_point():
                digest.update(f'{name}.{key}'.encode())
                digest.update(bytes_of(value))
    return digest.hexdigest()[:16]


def check_student(model: nn.Module, member: dict[str, Any],
                  base: str) -> None:
    """Raise unless a student belongs to this base.

    Args:
        model (BayesianSegmentor): With the weights of the base.
        member (dict): See :func:`read_members`.
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
