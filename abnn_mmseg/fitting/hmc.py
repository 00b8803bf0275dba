r"""Hamiltonian Monte Carlo on one vector, with the full gradient.

A sample theta of ``exp(-U(theta))`` gets a momentum r ~ N(0, I) and moves by
leapfrog steps, which nearly preserve H = U + |r|^2 / 2. The end point is
accepted with probability min(1, exp(H_before - H_after)) (Neal, 2011). During
burn-in the step size is adapted to the target acceptance by dual averaging
(Hoffman & Gelman, 2014); afterwards it is fixed.
"""
import math
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

import torch
from torch import Tensor

# From theta to U(theta) and its gradient, both in double precision.
Potential = Callable[[Tensor], tuple[float, Tensor]]
# An energy error above this is a divergence, not a rounding error.
DIVERGENT = 1000.


class Point(NamedTuple):
    """A value of theta with its energy U and the gradient of U."""
    theta: Tensor
    energy: float
    gradient: Tensor


def point_at(potential: Potential, theta: Tensor) -> Point:
    """The point at theta."""
    return Point(theta, *potential(theta))


def leapfrog(potential: Potential, start: Point, momentum: Tensor,
             step: float, count: int) -> tuple[Point, Tensor]:
    """Take ``count`` leapfrog steps; return the end point and its momentum.

    It stops early if the energy is not finite.
    """
    point = start
    momentum = momentum - step / 2 * point.gradient
    for number in range(count):
        point = point_at(potential, point.theta + step * momentum)
        if not math.isfinite(point.energy):
            break
        last = number == count - 1
        momentum = momentum - (step / 2 if last else step) * point.gradient
    return point, momentum


def hamiltonian(point: Point, momentum: Tensor) -> float:
    """Potential and kinetic energy."""
    return point.energy + float(momentum.square().sum()) / 2


class DualAveraging:
    """Adapts the logarithm of a step size to a target acceptance.

    Args:
        step (float): The first step size.
        target (float): The target acceptance.
    """

    def __init__(self, step: float, target: float) -> None:
        self.target = target
        self.centre = math.log(2 * step)
        self.count = 0
        self.error = 0.
        self.mean = math.log(step)

    def update(self, acceptance: float) -> float:
        """Take in the acceptance of a trajectory; return the next step."""
        self.count += 1
        weight = 1 / (self.count + 10)
        self.error += weight * (self.target - acceptance - self.error)
        current = self.centre - math.sqrt(self.count) / 0.05 * self.error
        share = self.count**-0.75
        self.mean += share * (current - self.mean)
        return math.exp(current)

    @property
    def final(self) -> float:
        """The step size after burn-in."""
        return math.exp(self.mean)


class Chain:
    """One Markov chain, which can stop after any sample and be resumed.

    Args:
        potential (Callable): U and its gradient.
        start (Tensor): The first theta, in double precision.
        length (float): Length of a trajectory, step size times steps.
        burn_in (int): Trajectories that adapt the step size.
        seed (int): Seed of the chain.
        step (float, optional): First step size. Defaults to None, which
            searches for one.
        target (float): Target acceptance. Defaults to 0.8.
        jitter (float): The number of steps varies by this share around
            ``length / step``. With a constant length, directions of certain
            periods would return to where they started. Defaults to 0.2.
        max_steps (int): Most steps of a trajectory. Defaults to 1000.

    Attributes:
        trace (list[dict]): For each trajectory its acceptance,
            energy_error, step, steps, energy, divergent.
    """

    def __init__(self,
                 potential: Potential,
                 start: Tensor,
                 length: float,
                 burn_in: int,
                 seed: int,
                 step: Optional[float] = None,
                 target: float = 0.8,
                 jitter: float = 0.2,
                 max_steps: int = 1000) -> None:
        self.potential = potential
        self.start = start.double()
        self.length = length
        self.burn_in = burn_in
        self.step = step
        self.target = target
        self.jitter = jitter
        self.max_steps = max_steps
        self.generator = torch.Generator().manual_seed(seed)
        self.point: Optional[Point] = None
        self.adaptation: Optional[DualAveraging] = None
        self.trace: list[dict[str, float]] = []

    @property
    def is_burning_in(self) -> bool:
        """Whether the next trajectory belongs to burn-in."""
        return len(self.trace) < self.burn_in

    def advance(self) -> Tensor:
        """Run one trajectory; return the sample after it."""
        point = self.point = self.point or self._begin()
        if self.step is None:
            self.step = self._find_step(point)
        if self.adaptation is None:
            self.adaptation = DualAveraging(self.step, self.target)
        momentum = self._normal()
        steps = self._count_steps(self.step)
        end, opposite = leapfrog(
            self.potential, point, momentum, self.step, steps)
        error = hamiltonian(end, opposite) - hamiltonian(point, momentum)
        acceptance = math.exp(min(0., -error)) if math.isfinite(error) else 0.
        if self._uniform() < acceptance:
            self.point = end
        self.trace.append(dict(
            acceptance=acceptance,
            energy_error=error if math.isfinite(error) else math.inf,
            step=self.step, steps=steps, energy=self.point.energy,
            divergent=float(not abs(error) < DIVERGENT)))
        if len(self.trace) <= self.burn_in:
            self.step = self.adaptation.update(acceptance)
        if len(self.trace) == self.burn_in:
            self.step = self.adaptation.final
        return self.point.theta

    def _begin(self) -> Point:
        point = point_at(self.potential, self.start)
        if not math.isfinite(point.energy):
            raise ValueError(
                'the chain starts where the posterior is not finite; start '
                'nearer to the base, with a smaller --prior-std.')
        return point

    def _count_steps(self, step: float) -> int:
        factor = 1 + self.jitter * (2 * self._uniform() - 1)
        return max(1, min(self.max_steps,
                          round(factor * self.length / step)))

    def _find_step(self, point: Point) -> float:
        """A step size at which about half of single steps are accepted."""
        step = self.length / 10
        momentum = self._normal()
        before = hamiltonian(point, momentum)
        direction = 0.
        for _ in range(60):
            end, opposite = leapfrog(
                self.potential, point, momentum, step, 1)
            error = hamiltonian(end, opposite) - before
            is_good = math.isfinite(error) and error < math.log(2)
            wanted = 2. if is_good else 0.5
            if direction and wanted != direction:
                return step if is_good else step / 2
            if step > self.length and is_good:
                return self.length
            direction = wanted
            step *= direction
        raise ValueError(
            'the chain diverges however small its steps are: the loss is '
            'not a finite, smooth function of the norms; check the base and '
            'the labels.')

    def _normal(self) -> Tensor:
        return torch.randn(self.start.shape, generator=self.generator,
                           dtype=torch.float64)

    def _uniform(self) -> float:
        return float(torch.rand((), generator=self.generator,
                                dtype=torch.float64))

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next trajectory depends on."""
        return dict(
            point=None if self.point is None else tuple(self.point),
            step=self.step, trace=self.trace,
            adaptation=self.adaptation and dict(vars(self.adaptation)),
            generator=self.generator.get_state())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue a stored chain."""
        self.point = state['point'] and Point(*state['point'])
        self.step, self.trace = state['step'], state['trace']
        if state['adaptation']:
            self.adaptation = DualAveraging(1., self.target)
            vars(self.adaptation).update(state['adaptation'])
        self.generator.set_state(state['generator'])


def summary(traces: Sequence[Sequence[dict[str, float]]],
            burn_in: int) -> dict[str, float]:
    """Means over all trajectories of several chains after burn-in."""
    kept = [entry for trace in traces for entry in trace[burn_in:]]
    errors = [abs(e['energy_error']) for e in kept
              if math.isfinite(e['energy_error'])]
    return dict(
        acceptance=sum(e['acceptance'] for e in kept) / len(kept),
        energy_error=sum(errors) / max(1, len(errors)),
        divergent=sum(e['divergent'] for e in kept) / len(kept),
        step=sum(e['step'] for e in kept) / len(kept),
        steps=sum(e['steps'] for e in kept) / len(kept))
