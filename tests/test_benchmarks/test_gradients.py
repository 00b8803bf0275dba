"""The variance that is measured, against closed forms."""
import argparse

import pytest
import torch
from sketches import abnn_config
from toys import bayesian_config, build

from benchmarks import gradients
from benchmarks.gradients import _measure, _Weights


def test_the_variance_is_that_of_the_draws_and_unbiased():
    """g = x + x * eps has Var = x^2 and E[g]^2 = x^2."""

    def method(x):
        return {'theta': [(x + x * torch.randn(20000), 2.)]}

    [measures] = _measure(method, [torch.tensor(1.), torch.tensor(2.)], 4,
                          '').values()
    expected = (1 + 4) / 2
    assert measures['per_parameter'] == pytest.approx(expected, rel=0.03)
    assert measures['total'] == pytest.approx(expected * 20000, rel=0.03)
    assert measures['scale_free'] == pytest.approx(
        4 * expected * 20000, rel=0.03)
    assert measures['noise_to_signal'] == pytest.approx(1, rel=0.03)


def test_reparametrized_gradients_are_autograd_s(images):
    """mu and rho of one convolution, as autograd sees them."""
    model = build(bayesian_config(auxiliary=False)).train()
    weight = model.backbone.conv1.weight
    method = _Weights(model, lambda w: 0.01)
    target = torch.randn_like(model.backbone.conv1(images))

    def loss(inputs, samples):
        return dict(loss=(model.backbone.conv1(inputs) * target).square()
                    .mean() + sum((w**2).sum() for w in method.weights))

    model.loss, before = loss, weight.detach().clone()
    torch.manual_seed(1)
    found = method(dict(inputs=images, data_samples=None))
    assert torch.equal(weight, before)
    torch.manual_seed(1)
    eps = [torch.randn_like(w) for w in method.weights]
    mu = [w.detach().clone().requires_grad_() for w in method.weights]
    rho = [torch.full_like(m, 0.01).expm1().log().requires_grad_()
           for m in mu]
    drawn = [m + torch.nn.functional.softplus(r) * e
             for m, r, e in zip(mu, rho, eps)]
    index = next(i for i, w in enumerate(method.weights) if w is weight)
    convolved = torch.nn.functional.conv2d(
        images, drawn[index], stride=model.backbone.conv1.stride,
        padding=model.backbone.conv1.padding)
    ((convolved * target).square().mean() + sum(
        (w**2).sum() for w in drawn)).backward()
    for group, parameters in (('mu', mu), ('rho', rho)):
        for (gradient, _), parameter in zip(found[group], parameters):
            assert torch.allclose(gradient, parameter.grad, atol=1e-6)


def test_the_benchmark_has_a_row_for_each_gradient(sketch, base,
                                                   tmp_path):
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.dump(tmp_path / 'abnn.py')
    parser = argparse.ArgumentParser()
    gradients.add_arguments(parser)
    result = gradients.run(parser.parse_args([
        '--config', str(tmp_path / 'abnn.py'), '--images', '2', '--draws',
        '3']))
    kinds = [(row['method'][:3], row['parameters'])
             for row in result['gradients']]
    assert kinds == [('ABN', 'gamma, beta'), ('BNN', 'mu'), ('BNN', 'rho'),
                     ('BNN', 'mu'), ('BNN', 'rho')]
    assert 0 < result['ratio_to_classical_bnn']['total'] < 1


def test_a_missing_base_names_make_demo(sketch, tmp_path):
    cfg = abnn_config(sketch, tmp_path, tmp_path / 'nowhere.pth')
    cfg.dump(tmp_path / 'abnn.py')
    parser = argparse.ArgumentParser()
    gradients.add_arguments(parser)
    with pytest.raises(FileNotFoundError, match='make demo'):
        gradients.run(parser.parse_args([
            '--config', str(tmp_path / 'abnn.py'), '--demo', str(tmp_path)]))
