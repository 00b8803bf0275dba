r"""Gaussians over norm parameters: Laplace and SWAG.

A fitted Gaussian is a member with more tensors. Its norms are the mean, and
tensors whose names begin with ``spread.`` describe the spread around it:

=========================  ================================================
``spread.diagonal.NAME``   of the parameter's own shape
``spread.factor.NAME``     rows F, ``[R, *shape]``, shared by all layers
``spread.layer.NAME``      rows F, ``[R, *shape]``, separate for each layer
=========================  ================================================

For Laplace they are a precision, diagonal + F^T F, before prior and
temperature; for SWAG a covariance, diagonal + F^T F.
"""
from collections.abc import Sequence
from typing import Optional

import torch
from mmseg.registry import MODELS
from torch import Tensor

from abnn_mmseg.models.posteriors.bank import (
    BankPosterior,
    kept,
    state_of,
    tensors_of,
)
from abnn_mmseg.models.posteriors.draws import check_draws, check_seed
from abnn_mmseg.models.posteriors.sampled import SampledPosterior

SPREAD = 'spread.'
DIAGONAL, FACTOR, LAYER = (
    f'{SPREAD}{name}.' for name in ('diagonal', 'factor', 'layer'))
PRIOR, TEMPERATURE = f'{SPREAD}prior_precision', f'{SPREAD}temperature'
State = dict[str, Tensor]


class GaussianPosterior(SampledPosterior):
    """K networks whose norms are drawn from a fitted Gaussian.

    Several fitted files are a mixture; their draws alternate.

    Args:
        samples (int): Draws of each Gaussian. Defaults to 8.
        antithetic (bool): Draw pairs (z, -z). Defaults to True.
        seed (int): Seed of the draws, which are made on the CPU. Defaults to
            0.
        scale (float): Factor of the standard deviation; 0 is the mean.
            Defaults to 1.
        **kwargs: See :class:`SampledPosterior`.
    """

    def __init__(self,
                 samples: int = 8,
                 antithetic: bool = True,
                 seed: int = 0,
                 scale: float = 1.,
                 **kwargs) -> None:
        super().__init__(**kwargs)
        self.samples = samples
        self.antithetic = antithetic
        self.seed = seed
        self.scale = scale
        self._drawn: tuple[tuple, list, list[State]] = ((), [], [])
        self.check()

    def check(self) -> None:
        """Raise ValueError for a setting that cannot be used."""
        super().check()
        check_seed(self.seed)
        check_draws(self.samples, self.antithetic)
        if not 0 <= self.scale < float('inf'):
            raise ValueError(f'scale={self.scale} of the posterior is not a '
                             'factor of a standard deviation; write a '
                             'number >= 0, such as 1.')

    @property
    def noise_settings(self) -> str:
        """The settings that the draws depend on, as text."""
        pairs = 'antithetic' if self.antithetic else 'independent'
        return (f'{self.samples} {pairs} draws, seed {self.seed}, '
                f'scale {self.scale:g}, {super().noise_settings}')

    def noise_free(self) -> BankPosterior:
        """The mean of each Gaussian."""
        posterior = super().noise_free()
        assert isinstance(posterior, GaussianPosterior)
        posterior.scale, posterior.networks = 0., None
        return posterior

    def norms(self) -> list[State]:
        """The draws; network k is draw ``k // M`` of Gaussian ``k % M``."""
        key = self._decisive()
        if self._drawn[0] != key:
            draws = [self._draw_norms(i, member)
                     for i, member in enumerate(self.members)]
            self._drawn = key, kept(tensors_of(self.members)), [
                state for row in zip(*draws) for state in row]
        return self._drawn[2]

    def _decisive(self) -> tuple:
        """All that the draws depend on."""
        members = tuple(map(state_of, tensors_of(self.members)))
        return (members, self.samples, self.antithetic, self.seed,
                self.scale, tuple(self.in_scope))

    def _draw_norms(self, number: int, member: State) -> list[State]:
        """Draws of one Gaussian, for the layers in scope."""
        mean = {k: v for k, v in member.items() if not k.startswith(SPREAD)}
        names = spread_names(member, self.in_scope)
        if not names or self.scale == 0:
            return [mean]
        count = self.samples // 2 if self._pairs else self.samples
        generator = torch.Generator().manual_seed(self.seed + 7919 * number)
        changes = []
        for _ in range(count):
            drawn = self.deviation(member, names, generator)
            for sign in (1, -1) if self._pairs else (1, ):
                changes.append({
                    name: mean[name] + sign * self.scale * drawn[name]
                    for name in names})
        return [{**mean, **change} for change in changes]

    @property
    def _pairs(self) -> bool:
        return self.antithetic and self.samples > 1

    def deviation(self, member: State, names: Sequence[str],
                  generator: torch.Generator) -> State:
        """One draw of the Gaussian, minus its mean."""
        raise NotImplementedError


@MODELS.register_module()
class LaplacePosterior(GaussianPosterior):
    r"""Laplace's approximation: a Gaussian from the curvature of the loss.

    The covariance is that of the generalized Gauss-Newton matrix at the
    base's norms,

        T * (G + tau * I)^-1,   G = diagonal + F^T F,

    with the prior precision tau and the temperature T that ``abnn fit
    laplace`` chose on validation images (Daxberger et al., 2021).

    Args:
        prior_precision (float, optional): tau instead of the fitted one.
        temperature (float, optional): T instead of the fitted one.
        **kwargs: See :class:`GaussianPosterior`.
    """

    member_kinds = ('laplace', )

    def __init__(self,
                 prior_precision: Optional[float] = None,
                 temperature: Optional[float] = None,
                 **kwargs) -> None:
        self.prior_precision = prior_precision
        self.temperature = temperature
        super().__init__(**kwargs)

    def check(self) -> None:
        """Raise ValueError for a setting that cannot be used."""
        super().check()
        for name, value in (('prior_precision', self.prior_precision),
                            ('temperature', self.temperature)):
            if value is not None and not 0 < value < float('inf'):
                raise ValueError(f'{name}={value} of LaplacePosterior must '
                                 'be positive, or None for the fitted one.')

    @property
    def noise_settings(self) -> str:
        """The settings that the draws depend on, as text."""
        return (f'prior precision {self.prior_precision or "fitted"}, '
                f'temperature {self.temperature or "fitted"}, '
                f'{super().noise_settings}')

    def _decisive(self) -> tuple:
        return (self.prior_precision, self.temperature, *super()._decisive())

    def deviation(self, member: State, names: Sequence[str],
                  generator: torch.Generator) -> State:
        """One draw of the Gaussian, minus its mean."""
        prior = self.prior_precision or float(member[PRIOR])
        temperature = self.temperature or float(member[TEMPERATURE])
        drawn: State = {}
        for group in independent(member, names):
            diagonal = flat(member, DIAGONAL, group) + prior
            sample = draw_from_precision(
                diagonal, rows_of(member, group), generator)
            drawn.update(split(sample * temperature**0.5, member, group))
        return drawn


@MODELS.register_module()
class SWAGPosterior(GaussianPosterior):
    """A Gaussian from the trajectory of training (Maddox et al., 2019).

    ``abnn fit swag`` trains the norms further at a constant rate and takes
    snapshots. The mean is that of the snapshots, the covariance is

        (diagonal + D^T D / (R - 1)) / 2

    with D the deviations of the last R snapshots from the mean so far. The
    factors are part of the stored tensors.
    """

    member_kinds = ('swag', )

    def deviation(self, member: State, names: Sequence[str],
                  generator: torch.Generator) -> State:
        """One draw of the Gaussian, minus its mean."""
        diagonal, rows = flat(member, DIAGONAL, names), rows_of(member, names)
        sample = diagonal.sqrt() * normal(len(diagonal), generator)
        if len(rows):
            sample += rows.t() @ normal(len(rows), generator)
        return split(sample, member, names)


def draw_from_precision(diagonal: Tensor, rows: Tensor,
                        generator: torch.Generator) -> Tensor:
    """A draw of N(0, P^-1) with P = diag(d) + F^T F.

    With b = d^(1/2) z1 + F^T z2, of covariance P, it is P^-1 b. Woodbury's
    formula solves it by a system as large as F has rows.

    Args:
        diagonal (Tensor): d, ``[P]``, positive.
        rows (Tensor): F, ``[R, P]``.
        generator (torch.Generator): Source of z1 and z2.
    """
    b = diagonal.sqrt() * normal(len(diagonal), generator)
    if not len(rows):
        return b / diagonal
    b = b + rows.t() @ normal(len(rows), generator)
    scaled = rows / diagonal
    small = torch.eye(len(rows), dtype=rows.dtype) + scaled @ rows.t()
    return b / diagonal - scaled.t() @ torch.linalg.solve(small, scaled @ b)


def normal(count: int, generator: torch.Generator) -> Tensor:
    """Standard normal numbers, in double precision."""
    return torch.randn(count, generator=generator, dtype=torch.float64)


def spread_names(member: State, layers: Sequence[str]) -> list[str]:
    """Names of the parameters of these layers that have a spread."""
    names = [k.removeprefix(DIAGONAL) for k in member
             if k.startswith(DIAGONAL)]
    wanted = set(layers)
    return [name for name in names if name.rpartition('.')[0] in wanted]


def independent(member: State, names: Sequence[str]) -> list[list[str]]:
    """Groups of parameters with separate rows: the layers, or all."""
    if not any(LAYER + name in member for name in names):
        return [list(names)]
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.rpartition('.')[0], []).append(name)
    return list(groups.values())


def flat(member: State, prefix: str, names: Sequence[str]) -> Tensor:
    """Tensors of these parameters as one vector."""
    return torch.cat([member[prefix + n].double().flatten() for n in names])


def rows_of(member: State, names: Sequence[str]) -> Tensor:
    """The factor F of these parameters, ``[R, P]``; R may be 0."""
    prefix = LAYER if LAYER + names[0] in member else FACTOR
    if prefix + names[0] not in member:
        size = sum(member[name].numel() for name in names)
        return torch.zeros(0, size, dtype=torch.float64)
    return torch.cat([
        member[prefix + n].double().flatten(1) for n in names], 1)


def split(values: Tensor, member: State, names: Sequence[str]) -> State:
    """Split a vector into tensors by parameter."""
    parts = values.split([member[name].numel() for name in names])
    return {
        name: part.reshape(member[name].shape).to(member[name])
        for name, part in zip(names, parts)
    }
