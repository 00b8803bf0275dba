import pytest
import torch
from linear import CHANNELS, exact_gauss_newton, make
from torch.utils.data import DataLoader, TensorDataset

from abnn_mmseg.fitting.fitted import split_vector
from abnn_mmseg.fitting.laplace import Fisher, longest, sampled_rows
from abnn_mmseg.models.posteriors.gaussian import (
    DIAGONAL,
    FACTOR,
    PRIOR,
    TEMPERATURE,
    LaplacePosterior,
    SWAGPosterior,
    draw_from_precision,
)


def rows_of_all(likelihood, draws):
    generator = torch.Generator().manual_seed(0)
    return [row for batch in likelihood.images
            for row in sampled_rows(likelihood, batch, draws, generator)]


def test_the_curvature_of_a_linear_model_is_its_closed_form():
    likelihood = make()
    exact = exact_gauss_newton(likelihood)
    rows = torch.stack(rows_of_all(likelihood, 1500))
    error = (rows.t() @ rows - exact).norm() / exact.norm()
    assert error < 0.04
    fisher = Fisher([2 * CHANNELS], 2 * CHANNELS, 2 * CHANNELS)
    for row in rows[::50]:
        fisher.add(row)
    diagonal, [kept] = fisher.curvature()
    torch.testing.assert_close(
        kept.t() @ kept, (rows[::50].t() @ rows[::50]).float(),
        rtol=1e-3, atol=1e-3)
    assert diagonal.max() < 1e-3


def test_the_diagonal_is_kept_whatever_the_rank():
    likelihood = make()
    rows = torch.stack(rows_of_all(likelihood, 10))
    for sizes in ([], [2 * CHANNELS], [CHANNELS, CHANNELS]):
        fisher = Fisher(sizes, 2, 2 * CHANNELS)
        for row in rows:
            fisher.add(row)
        diagonal, kept = fisher.curvature()
        whole = diagonal.clone()
        if kept:
            whole += torch.cat([k.double().square().sum(0) for k in kept])
        torch.testing.assert_close(
            whole, rows.square().sum(0), rtol=1e-4, atol=1e-4)
        assert all(len(k) == 2 for k in kept)


def test_the_longest_rows_are_those_of_a_singular_value_decomposition():
    rows = torch.randn(12, 5) * torch.tensor([9., 4., 2., 1., 0.1])
    u, s, v = torch.linalg.svd(rows, full_matrices=False)
    best = v[:2].t() @ (s[:2] ** 2).diag() @ v[:2]
    kept = longest(rows, 2)
    torch.testing.assert_close(kept.t() @ kept, best, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize('rank', [0, 2])
def test_draws_have_the_inverse_of_the_precision_as_covariance(rank):
    diagonal = torch.tensor([1., 2., 5.], dtype=torch.float64)
    rows = torch.tensor([[1., 1., 0.], [0., 2., -1.]],
                        dtype=torch.float64)[:rank]
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack([
        draw_from_precision(diagonal, rows, generator) for _ in range(20000)])
    expected = torch.linalg.inv(diagonal.diag() + rows.t() @ rows)
    torch.testing.assert_close(
        torch.cov(draws.t()), expected, rtol=0.05, atol=0.01)


def members_draws(posterior, spread, count=6000):
    """Draws of a posterior's deviations, ``[count, P]``."""
    names = ['norm.weight', 'norm.bias']
    like = {name: torch.zeros(CHANNELS) for name in names}
    member = dict(like)
    for prefix, value in spread.items():
        if value.dim():
            member.update({prefix + name: part for name, part in
                           split_vector(value, like).items()})
        else:
            member[prefix] = value
    generator = torch.Generator().manual_seed(0)
    draws = [posterior.deviation(member, names, generator)
             for _ in range(count)]
    return torch.stack([torch.cat([d[n] for n in names]) for d in draws])


def test_laplace_is_the_closed_form_posterior_of_a_linear_model():
    """T (G + tau I)^-1 with the exact G."""
    likelihood = make()
    exact = exact_gauss_newton(likelihood)
    values, vectors = torch.linalg.eigh(exact)
    rows = (values.clamp_min(0).sqrt() * vectors).t()
    draws = members_draws(LaplacePosterior(), {
        DIAGONAL: torch.zeros(2 * CHANNELS), FACTOR: rows.float(),
        PRIOR: torch.tensor(3.), TEMPERATURE: torch.tensor(0.5)})
    expected = 0.5 * torch.linalg.inv(
        exact + 3 * torch.eye(2 * CHANNELS, dtype=torch.float64))
    error = (torch.cov(draws.t()).double() - expected).norm()
    assert error < 0.06 * expected.norm()


def test_swag_draws_have_its_covariance():
    diagonal = torch.rand(2 * CHANNELS)
    rows = torch.randn(4, 2 * CHANNELS)
    draws = members_draws(SWAGPosterior(), {DIAGONAL: diagonal, FACTOR: rows})
    expected = diagonal.diag() + rows.t() @ rows
    error = (torch.cov(draws.t()) - expected).norm()
    assert error < 0.06 * expected.norm()


@pytest.mark.parametrize('structure', ['diag', 'full'])
@pytest.mark.filterwarnings('ignore')
def test_the_curvature_is_that_of_laplace_torch(structure):
    """Images of one pixel, so that an image is a datum of that library."""
    laplace = pytest.importorskip(
        'laplace', reason='laplace-torch is an extra for developers')
    likelihood = make(images=12, height=1, width=1, pixels=1.)
    inputs = torch.cat([batch.inputs for batch in likelihood.images])
    labels = torch.cat([batch.samples[0].gt_sem_seg.data.flatten()
                        for batch in likelihood.images])

    class Flat(torch.nn.Module):

        def __init__(self):
            super().__init__()
            self.inner = likelihood.model

        def forward(self, x):
            return self.inner(x, None).flatten(1)

    model = Flat()
    model.inner.head.requires_grad_(False)
    other = laplace.Laplace(model, 'classification', subset_of_weights='all',
                            hessian_structure=structure)
    other.fit(DataLoader(TensorDataset(inputs, labels), batch_size=4))
    exact = exact_gauss_newton(likelihood)
    theirs = other.H.double()
    torch.testing.assert_close(
        theirs, exact.diagonal() if structure == 'diag' else exact,
        rtol=1e-3, atol=1e-3)
    rows = torch.stack(rows_of_all(likelihood, 1500))
    ours = rows.square().sum(0) if structure == 'diag' else rows.t() @ rows
    assert (ours - theirs).norm() < 0.06 * theirs.norm()
