"""Turn the norms of a built model into BNL, in place, and report on it."""
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Dict, Optional, Sequence, Union

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from . import bnl
from .scopes import select

KNOWN = {
    nn.BatchNorm2d: bnl.BNL,
    nn.LayerNorm: bnl.BNLLN,
    nn.GroupNorm: bnl.BNLGN,
    nn.InstanceNorm2d: bnl.BNLIN
}
FAMILIES = dict(
    batch=bnl.BatchBNL,
    layer=(bnl.LayerBNL, bnl.ChannelFirstLayerBNL),
    group=bnl.GroupBNL,
    instance=bnl.InstanceBNL)


class _AnyBatchNorm(_BatchNorm):
    """Batch norm of any rank: what a SyncBN is on one device."""

    def _check_input_dim(self, input):
        """SyncBN takes 2 to 5 dimensions."""


@dataclass
class ConversionReport:
    """What became Bayesian, and what did not, and why."""
    converted: Dict[str, str] = field(default_factory=dict)
    left: Dict[str, str] = field(default_factory=dict)

    def summary(self) -> str:
        """Such as "69 batch; left 2: no affine parameters"."""
        text = ', '.join(f'{n} {family}' for family, n in Counter(
            self.converted.values()).items()) or 'none'
        for reason, n in Counter(self.left.values()).items():
            text += f'; left {n}: {reason}'
        return text


def convert_norms(model: nn.Module,
                  alpha: float = 0.1,
                  statistics: str = 'frozen',
                  include: Union[str, Sequence[str]] = 'all',
                  exclude: Sequence[str] = ()) -> ConversionReport:
    """Make every norm of a model Bayesian without touching its tensors.

    The layer keeps its identity, parameters, buffers and hooks; only its
    class changes to a subclass of what it was.

    Args:
        model (nn.Module): Any built model.
        alpha (float): Noise level of layers that were plain norms.
        statistics (str): See :class:`BayesianNorm`.
        include (str | Sequence[str]): ``'all'``, or names and patterns.
        exclude (Sequence[str]): Names and patterns to leave alone.
    """
    report = ConversionReport()
    norms = {n: m for n, m in model.named_modules() if is_norm(m)}
    chosen = set(norms if include == 'all' else select(norms, include))
    chosen -= set(select(norms, exclude))
    for name, norm in norms.items():
        reason = 'excluded' if name not in chosen else _obstacle(norm)
        if reason:
            report.left[name] = reason
            continue
        if not isinstance(norm, bnl.BayesianNorm):
            norm.__class__ = bayesian_class(type(norm))
            norm.make_bayesian(alpha, statistics)
        else:
            norm.make_bayesian(norm.alpha, statistics)
        report.converted[name] = family_of(norm)
    return report


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a norm of one of the families."""
    return isinstance(module, (_BatchNorm, nn.LayerNorm, nn.GroupNorm,
                               _InstanceNorm)) or _is_channel_first(
                                   type(module))


@cache
def bayesian_class(norm: type) -> type:
    """The BNL class that replaces a norm class."""
    if norm in KNOWN:
        return KNOWN[norm]
    if issubclass(norm, nn.SyncBatchNorm):
        return type('BNLSyncBN', (bnl.BatchBNL, _AnyBatchNorm), {})
    for base, family in ((_InstanceNorm, bnl.InstanceBNL),
                         (_BatchNorm, bnl.BatchBNL),
                         (nn.GroupNorm, bnl.GroupBNL)):
        if issubclass(norm, base):
            return type(f'BNL{norm.__name__}', (family, norm), {})
    family = (
        bnl.ChannelFirstLayerBNL if _is_channel_first(norm) else bnl.LayerBNL)
    return type(f'BNL{norm.__name__}', (family, norm), {})


def family_of(layer: bnl.BayesianNorm) -> str:
    """``'batch'``, ``'layer'``, ``'group'`` or ``'instance'``."""
    return next(name for name, family in FAMILIES.items()
                if isinstance(layer, family))


def _is_channel_first(norm: type) -> bool:
    return any(c.__name__ == 'LayerNorm2d' for c in norm.__mro__)


def _obstacle(norm: nn.Module) -> Optional[str]:
    """Why a norm cannot be Bayesian, None if it can."""
    if getattr(norm, 'weight', None) is None:
        return 'no affine parameters'
    is_batch = isinstance(norm, _BatchNorm) and not isinstance(
        norm, _InstanceNorm)
    if is_batch and norm.running_mean is None:
        return 'no running statistics'
    return None
