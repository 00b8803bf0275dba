"""Turn the norms of a built model into BNL, in place, and report on it."""
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Optional, Union, cast

from mmseg.registry import MODELS
from torch import Tensor, nn

from abnn_mmseg.compat import AnyBatchNorm, AnyInstanceNorm, BatchNormOfAnyRank
from abnn_mmseg.models import bnl
from abnn_mmseg.models.architectures import TEXT_ENCODER
from abnn_mmseg.models.bayesian_norm import BayesianNorm
from abnn_mmseg.models.scopes import select
from abnn_mmseg.utils.choices import one_of

# Types of norm_cfg to suggest; users can register others.
NORM_TYPES = ('BN', 'SyncBN', 'LN', 'GN', 'IN', 'BNL', 'BNLLN', 'BNLGN',
              'BNLIN')
KNOWN: dict[type[nn.Module], type[BayesianNorm]] = {
    nn.BatchNorm2d: bnl.BNL,
    nn.LayerNorm: bnl.BNLLN,
    nn.GroupNorm: bnl.BNLGN,
    nn.InstanceNorm2d: bnl.BNLIN
}
BASES: dict[type[nn.Module], type[BayesianNorm]] = {
    AnyBatchNorm: bnl.BatchBNL,
    nn.LayerNorm: bnl.LayerBNL,
    nn.GroupNorm: bnl.GroupBNL,
    AnyInstanceNorm: bnl.InstanceBNL
}
FAMILIES = dict(zip(BASES, ('batch', 'layer', 'group', 'instance')))


@dataclass
class ConversionReport:
    """Which norms became Bayesian, and why others did not.

    Attributes:
        families (dict): The family of every norm by name.
        left (dict): Why a norm was not converted, by name.
    """
    families: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    @property
    def converted(self) -> dict[str, str]:
        """The family of every Bayesian layer by name."""
        return {
            name: family
            for name, family in self.families.items() if name not in self.left
        }

    def summary(self) -> str:
        """Such as "69 batch; left 2 instance (neck.norm, ...): excluded"."""
        text = ', '.join(f'{n} {family}' for family, n in Counter(
            self.converted.values()).items()) or 'none'
        left: dict[tuple, list[str]] = defaultdict(list)
        for name, reason in self.left.items():
            left[self.families[name], reason].append(name)
        for (family, reason), names in left.items():
            which = names[0] + (', ...' if len(names) > 1 else '')
            text += f'; left {len(names)} {family} ({which}): {reason}'
        return text


def check_norm_types(cfg: Any) -> None:
    """Raise if a config of modules names a norm that does not exist."""
    if isinstance(cfg, dict):
        norm = (cfg.get('norm_cfg') or {}).get('type')
        if isinstance(norm, str) and '.' not in norm and (
                MODELS.get(norm) is None):
            one_of('norm_cfg.type', norm, NORM_TYPES)
        cfg = list(cfg.values())
    if isinstance(cfg, (list, tuple)):
        for value in cfg:
            check_norm_types(value)


def convert_norms(model: nn.Module,
                  alpha: float = 0.1,
                  statistics: str = 'frozen',
                  include: Union[str, Sequence[str]] = 'all',
                  exclude: Union[str, Sequence[str]] = ()
                  ) -> ConversionReport:
    """Make every norm of a model Bayesian without touching its tensors.

    The layer keeps its identity, parameters, buffers and hooks; only its
    class changes, to a subclass.

    Args:
        model (nn.Module): Any built model.
        alpha (float): Noise level of layers that were plain norms.
        statistics (str): See :class:`BayesianNorm`.
        include (str | Sequence[str]): ``'all'``, or names and patterns.
        exclude (str | Sequence[str]): Names and patterns not to convert.
    """
    families = {
        name: family
        for name, module in model.named_modules()
        if (family := family_of(module))
    }
    norms = {name: model.get_submodule(name) for name in families}
    chosen = set(norms)
    if include != 'all':
        chosen &= _matching('convert', norms, include)
    chosen -= _matching('exclude', norms, exclude)
    report = ConversionReport(families)
    for name, norm in norms.items():
        obstacle = 'excluded' if name not in chosen else _obstacle(name, norm)
        if obstacle:
            report.left[name] = obstacle
            norm.__class__ = _plain_class(type(norm))
        elif isinstance(norm, BayesianNorm):
            norm.make_bayesian(norm.alpha, statistics)
        else:
            # mypy takes a class for unhashable.
            norm.__class__ = bayesian_class(
                type(norm))  # type: ignore[arg-type]
            cast(BayesianNorm, norm).make_bayesian(alpha, statistics)
    return report


def family_of(module: nn.Module) -> Optional[str]:
    """``'batch'``, ``'layer'``, ``'group'``, ``'instance'``, or another name.

    It is None for modules that are not norms.
    """
    for base, family in FAMILIES.items():
        if isinstance(module, base):
            return family
    kinds = [kind.__name__ for kind in type(module).__mro__]
    if 'LayerNorm' in kinds or 'LayerNorm2d' in kinds:
        return 'layer'
    is_affine = isinstance(getattr(module, 'weight', None), Tensor)
    if is_affine and re.search(r'Norm(\d[dD])?$', kinds[0]):
        return kinds[0]
    return None


@cache
def bayesian_class(norm: type[nn.Module]) -> type[BayesianNorm]:
    """The BNL class that replaces a norm class."""
    if norm in KNOWN:
        return KNOWN[norm]
    if issubclass(norm, nn.SyncBatchNorm):
        # mmengine would turn a subclass of SyncBN into a plain batch norm.
        return _picklable(
            'BNLSyncBN', (bnl.BatchBNL, BatchNormOfAnyRank), norm)
    family: type[BayesianNorm] = bnl.CustomBNL
    for base, known in BASES.items():
        if issubclass(norm, base) and norm.forward is base.forward:
            family = known
    return _picklable(f'BNL{norm.__name__}', (family, norm), norm)


def _picklable(name: str, bases: tuple, norm: type) -> type[BayesianNorm]:
    """Make a class whose instances are pickled by the class of the norm."""

    def reduce(self, protocol):
        """Pickle the layer by its original class."""
        reduced: Any = nn.Module.__reduce_ex__(self, protocol)
        return (_new_bayesian, (norm, ), *reduced[2:])

    return type(name, bases, dict(__reduce_ex__=reduce))


def _new_bayesian(norm: type[nn.Module]) -> nn.Module:
    replaced = bayesian_class(norm)  # type: ignore[arg-type]
    return replaced.__new__(replaced)


def _plain_class(norm: type[nn.Module]) -> type[nn.Module]:
    """The plain norm of a class that may be a BNL, e.g. by ``norm_cfg``."""
    if not issubclass(norm, BayesianNorm):
        return norm
    return norm.__mro__[norm.__mro__.index(BayesianNorm) + 1]


def _matching(option: str, norms: dict[str, nn.Module],
              patterns: Union[str, Sequence[str]]) -> set:
    """Names of norms that match; each pattern must match one."""
    patterns = [patterns] if isinstance(patterns, str) else patterns
    found = {pattern: select(norms, pattern) for pattern in patterns}
    for pattern, names in found.items():
        if not names:
            tops = sorted({'.'.join(name.split('.')[:2]) for name in norms})
            raise ValueError(
                f'{option}={pattern!r} of the segmentor matches none of its '
                f'{len(norms)} norms; write module names or patterns such as '
                f'{", ".join(tops[:8])}.')
    return {name for names in found.values() for name in names}


def _obstacle(name: str, norm: nn.Module) -> Optional[str]:
    """Why a norm cannot be Bayesian; None if it can."""
    if getattr(norm, 'weight', None) is None:
        return 'no affine parameters'
    if family_of(norm) not in FAMILIES.values():
        return 'unknown kind of norm'
    if isinstance(norm, AnyBatchNorm) and norm.running_mean is None:
        return 'no running statistics'
    if TEXT_ENCODER in name.split('.') and not norm.weight.requires_grad:
        return 'inside a frozen text encoder'
    return None
