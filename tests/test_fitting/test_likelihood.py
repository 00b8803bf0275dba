import math

import pytest
import torch
from linear import make

from abnn_mmseg.fitting.likelihood import design_effect, posterior_energy


def test_the_gradient_of_the_energy_is_that_of_finite_differences():
    likelihood = make()
    likelihood.model.double()
    likelihood.images = [b._replace(inputs=b.inputs.double())
                         for b in likelihood.images]
    centre = likelihood.theta
    energy = posterior_energy(likelihood, centre, 0.3, 0.5)
    theta = centre + 0.1 * torch.randn(centre.shape, dtype=torch.float64)
    value, gradient = energy(theta)
    for i in range(len(theta)):
        step = torch.zeros_like(theta)
        step[i] = 1e-5
        slope = (energy(theta + step)[0] - energy(theta - step)[0]) / 2e-5
        assert float(gradient[i]) == pytest.approx(slope, rel=1e-4, abs=1e-6)
    away = float((theta - centre).square().sum()) / (2 * 0.09)
    assert value == pytest.approx(
        (away - likelihood(theta)[0]) / 0.5, rel=1e-9)


def test_an_image_counts_as_its_effective_pixels():
    one, other = make(pixels=5.), make(pixels=20.)
    assert other(other.theta)[0] == pytest.approx(4 * one(one.theta)[0])
    with pytest.raises(ValueError, match='must be a positive number'):
        make(pixels=0.)


def test_effective_pixels_of_equal_pixels_is_one_and_of_noise_is_all():
    sizes = torch.full((200, ), 50.).double()
    means = torch.randn(200, dtype=torch.float64)
    assert design_effect(sizes, means, 0 * sizes) == pytest.approx(1)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(200, 50, generator=generator, dtype=torch.float64)
    squares = noise.var(1, unbiased=False) * 50
    found = design_effect(sizes, noise.mean(1), squares)
    assert 25 < found <= 50


def test_effective_pixels_follow_the_intraclass_correlation():
    """n / (1 + (n - 1) rho) for images that add a common part."""
    generator = torch.Generator().manual_seed(0)
    rho, n, images = 0.2, 40, 4000
    common = torch.randn(images, 1, generator=generator).double()
    own = torch.randn(images, n, generator=generator).double()
    loss = math.sqrt(rho) * common + math.sqrt(1 - rho) * own
    found = design_effect(
        torch.full((images, ), float(n)).double(), loss.mean(1),
        loss.var(1, unbiased=False) * n)
    assert found == pytest.approx(n / (1 + (n - 1) * rho), rel=0.1)
