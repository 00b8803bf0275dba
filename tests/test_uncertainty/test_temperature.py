import math

import pytest
import torch

from abnn_mmseg.uncertainty.temperature import (
    fit_temperature,
    negative_log_likelihood,
    temper,
)


def two_classes(logit, right, pixels=1000):
    """Constant logits (z, 0); the first class is right in some pixels."""
    logits = torch.tensor([logit, 0.]).expand(pixels, 2)
    labels = (torch.arange(pixels) >= right * pixels).long()
    return logits.log_softmax(1), labels


@pytest.mark.parametrize('logit,right', [(4., .8), (1., .9), (2., .6)])
def test_the_fit_is_the_closed_form_of_two_classes(logit, right):
    """The best confidence is the accuracy: sigmoid(z / T) = q."""
    expected = logit / math.log(right / (1 - right))
    assert fit_temperature(*two_classes(logit, right)) == pytest.approx(
        expected, rel=1e-4)


def test_no_other_temperature_has_a_smaller_loss():
    torch.manual_seed(0)
    logits = 3 * torch.randn(500, 7)
    labels = torch.distributions.Categorical(logits=logits / 1.7).sample()
    log_probability = logits.log_softmax(1)
    best = fit_temperature(log_probability, labels)
    assert 1.3 < best < 2.2
    lowest = negative_log_likelihood(log_probability, labels, best)
    for factor in (0.9, 0.99, 1.01, 1.1):
        assert negative_log_likelihood(
            log_probability, labels, factor * best) > lowest


def test_temper_is_the_renormalized_power():
    probability = torch.rand(5, 3, 4).softmax(0)
    power = probability**(1 / 2.5)
    assert torch.allclose(temper(probability.log(), 2.5).exp(),
                          power / power.sum(0), atol=1e-6)
    same = probability.log()
    assert temper(same, 1.) is same


def test_a_fit_without_labels_is_refused():
    with pytest.raises(ValueError, match='no labelled pixel'):
        fit_temperature(torch.zeros(0, 3), torch.zeros(0).long())
