import math
import pickle

import numpy as np
import pytest
import torch

from abnn_mmseg.fitting.convergence import effective_size, split_rhat
from abnn_mmseg.fitting.hmc import (
    Chain,
    hamiltonian,
    leapfrog,
    point_at,
    summary,
)

PRECISION = torch.tensor([[2., 0.6], [0.6, 0.5]], dtype=torch.float64)
MEAN = torch.tensor([1., -2.], dtype=torch.float64)


def gaussian(theta):
    gradient = PRECISION @ (theta - MEAN)
    return float((theta - MEAN) @ gradient) / 2, gradient


def quartic(theta):
    """Not harmonic, so leapfrog has an error of its own order."""
    return float((theta**4).sum()) / 4, theta**3


def run(chain, count):
    return torch.stack([chain.advance() for _ in range(count)])


def chains_of(potential, start, count=4, samples=1500, burn_in=100, **kwargs):
    chains = [Chain(potential, start + k, burn_in=burn_in, seed=k, **kwargs)
              for k in range(count)]
    return chains, torch.stack([
        run(chain, burn_in + samples)[burn_in:] for chain in chains])


def test_leapfrog_conserves_energy_at_second_order():
    start = point_at(quartic, torch.tensor([1., 0.4], dtype=torch.float64))
    momentum = torch.tensor([0.3, -0.8], dtype=torch.float64)
    before = hamiltonian(start, momentum)
    errors = []
    for step in (0.1, 0.05, 0.025):
        end, final = leapfrog(quartic, start, momentum, step, round(2 / step))
        errors.append(abs(hamiltonian(end, final) - before))
    for coarse, fine in zip(errors, errors[1:]):
        assert math.log2(coarse / fine) == pytest.approx(2, abs=0.2)


def test_leapfrog_is_reversible():
    start = point_at(quartic, torch.tensor([1., 0.4], dtype=torch.float64))
    momentum = torch.tensor([0.3, -0.8], dtype=torch.float64)
    end, final = leapfrog(quartic, start, momentum, 0.1, 30)
    assert not torch.allclose(end.theta, start.theta, atol=0.1)
    back, opposite = leapfrog(quartic, end, -final, 0.1, 30)
    torch.testing.assert_close(back.theta, start.theta)
    torch.testing.assert_close(-opposite, momentum)


def test_samples_of_a_gaussian_have_its_mean_and_covariance():
    chains, samples = chains_of(
        gaussian, torch.zeros(2, dtype=torch.float64), length=2.5)
    every = samples.flatten(0, 1)
    sizes = effective_size(samples.numpy())
    covariance = torch.linalg.inv(PRECISION)
    # Five standard errors of Monte Carlo.
    errors = (covariance.diagonal() / torch.from_numpy(sizes)).sqrt()
    assert ((every.mean(0) - MEAN).abs() < 5 * errors).all()
    torch.testing.assert_close(
        torch.cov(every.t()), covariance, rtol=0.15, atol=0.05)
    assert split_rhat(samples.numpy()).max() < 1.01
    found = summary([chain.trace for chain in chains], 100)
    assert found['acceptance'] > 0.7
    assert found['divergent'] == 0


def test_samples_of_a_logistic_model_match_its_exact_posterior():
    """One weight, so a fine grid gives the exact posterior."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, generator=generator, dtype=torch.float64)
    y = (torch.rand(20, generator=generator, dtype=torch.float64)
         < (1.5 * x).sigmoid()).double()

    def energy(theta):
        z = theta[:, None] * x
        fit = torch.nn.functional.binary_cross_entropy_with_logits(
            z, y.expand_as(z), reduction='none').sum(1)
        return fit + theta.square() / 2

    def potential(theta):
        theta = theta.detach().requires_grad_()
        value = energy(theta).sum()
        value.backward()
        return float(value), theta.grad

    _, samples = chains_of(
        potential, torch.zeros(1, dtype=torch.float64), length=math.pi / 2)
    grid = torch.linspace(-4, 8, 4001, dtype=torch.float64)
    weights = (-energy(grid)).softmax(0)
    mean = float((weights * grid).sum())
    std = float((weights * (grid - mean)**2).sum().sqrt())
    assert float(samples.mean()) == pytest.approx(mean, abs=0.1 * std)
    assert float(samples.std()) == pytest.approx(std, rel=0.1)
    for q in (0.05, 0.5, 0.95):
        exact = grid[torch.searchsorted(weights.cumsum(0), q)]
        share = float((samples < exact).double().mean())
        assert share == pytest.approx(q, abs=0.03)


def test_the_step_size_is_adapted_and_then_fixed():
    chain = Chain(gaussian, MEAN + 3, length=2.5, burn_in=60, seed=0)
    run(chain, 100)
    steps = [entry['step'] for entry in chain.trace]
    assert len(set(steps[:60])) > 30
    assert len(set(steps[60:])) == 1


def test_a_chain_that_was_stopped_goes_on_with_the_same_samples():
    def fresh():
        return Chain(gaussian, MEAN + 1, length=2.5, burn_in=10, seed=3)

    whole = run(fresh(), 30)
    for stop in (1, 7, 10, 19):
        first = fresh()
        before = run(first, stop)
        state = pickle.loads(pickle.dumps(first.state_dict()))
        second = fresh()
        second.load_state_dict(state)
        after = run(second, 30 - stop)
        assert torch.equal(torch.cat([before, after]), whole)


def test_a_loss_without_a_finite_value_is_refused():
    def broken(theta):
        value = 0. if theta.abs().max() == 0 else math.nan
        return value, torch.ones_like(theta)

    start = torch.zeros(2, dtype=torch.float64)
    chain = Chain(broken, start, length=1., burn_in=2, seed=0)
    with pytest.raises(ValueError, match='diverges however small'):
        chain.advance()
    with pytest.raises(ValueError, match='starts where'):
        Chain(broken, start + 1, length=1., burn_in=2, seed=0).advance()


def ar1(rho, chains=4, draws=4000, seed=0):
    noise = np.random.default_rng(seed).normal(size=(chains, draws))
    values = np.empty_like(noise)
    values[:, 0] = noise[:, 0]
    for t in range(1, draws):
        values[:, t] = rho * values[:, t - 1] + np.sqrt(
            1 - rho**2) * noise[:, t]
    return values


@pytest.mark.parametrize('rho', [0., 0.6, 0.9])
def test_the_effective_size_of_an_autoregression_is_known(rho):
    values = ar1(rho)
    expected = values.size * (1 - rho) / (1 + rho)
    assert effective_size(values) == pytest.approx(expected, rel=0.15)
    assert split_rhat(values) == pytest.approx(1, abs=0.01)


def test_rhat_sees_chains_apart_and_chains_that_drift():
    values = ar1(0.2, draws=500)
    apart = values + np.arange(4)[:, None]
    drift = values + np.linspace(0, 3, 500)
    assert split_rhat(apart) > 1.4
    assert split_rhat(drift) > 1.2
    assert split_rhat(np.ones((2, 10))) == 1
    assert np.isinf(split_rhat(np.arange(2.)[:, None] * np.ones((2, 10))))


def test_both_are_those_of_arviz():
    stats = pytest.importorskip(
        'arviz_stats.base', reason='arviz-stats is an extra for developers')
    values = np.stack([ar1(rho, draws=301, seed=k)
                       for k, rho in enumerate((-0.5, 0., 0.5, 0.95))], -1)
    for i in range(4):
        rhat = stats.array_stats.rhat(
            values[..., i], method='split', chain_axis=0, draw_axis=1)
        size = stats.array_stats.ess(
            values[..., i], method='mean', chain_axis=0, draw_axis=1)
        assert split_rhat(values)[i] == pytest.approx(float(rhat), rel=1e-3)
        assert effective_size(values)[i] == pytest.approx(
            float(size), rel=0.05)


def test_chains_that_are_too_short_are_refused():
    with pytest.raises(ValueError, match='too short'):
        split_rhat(np.zeros((4, 3)))
