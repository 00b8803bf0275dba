import pytest
import torch
import torch.nn.functional as F
from toys import bayesian_config, build

from abnn_mmseg.models import RandomPriorCrossEntropyLoss


def test_the_loss_is_its_formula():
    loss = RandomPriorCrossEntropyLoss(6, rule='pair', weight=7., seed=1)
    logits, label = torch.randn(2, 6, 4, 5), torch.randint(0, 6, (2, 4, 5))
    label[0, 0, :3] = 255
    expected, valid = 0., 0
    log_p = logits.log_softmax(1)
    for n in range(2):
        for i in range(4):
            for j in range(5):
                y = label[n, i, j].item()
                if y != 255:
                    weight = 1 + loss.eta[y]
                    expected -= weight * log_p[n, y, i, j]
                    valid += 1
    assert torch.allclose(loss(logits, label), expected / valid)


def test_without_a_prior_it_is_the_cross_entropy():
    loss = RandomPriorCrossEntropyLoss(6, rule='none')
    logits, label = torch.randn(2, 6, 4, 5), torch.randint(0, 6, (2, 4, 5))
    label[0, 0, :3] = 255
    expected = F.cross_entropy(logits, label, ignore_index=255)
    assert torch.allclose(loss(logits, label), expected)


@pytest.mark.parametrize('rule,classes,favoured', [
    ('pair', 15, 2), ('sqrt', 15, 3), ('sqrt', 19, 4), ('pair', 1, 1)])
def test_the_authors_rules(rule, classes, favoured):
    eta = RandomPriorCrossEntropyLoss(classes, rule=rule, weight=7.).eta
    assert sorted(eta.tolist()) == [0.] * (classes - favoured) + [
        6.] * favoured


def test_eta_depends_on_the_seed_alone():
    etas = [RandomPriorCrossEntropyLoss(15, seed=s).eta for s in (0, 0, 1)]
    assert torch.equal(etas[0], etas[1])
    assert not torch.equal(etas[0], etas[2])


def test_eta_is_kept_in_the_checkpoint_and_not_asked_of_the_base():
    cfg = bayesian_config()
    cfg['decode_head']['loss_decode'] = dict(
        type='RandomPriorCrossEntropyLoss', num_classes=5, seed=3)
    model, base = build(cfg), build(bayesian_config())
    eta = model.decode_head.loss_decode.eta.clone()
    assert eta.sum() > 0
    model.load_state_dict(base.state_dict(), strict=True)
    assert torch.equal(model.decode_head.loss_decode.eta, eta)
    other = build(cfg)
    other.decode_head.loss_decode.draw(11)
    assert not torch.equal(other.decode_head.loss_decode.eta, eta)
    other.load_state_dict(model.state_dict(), strict=True)
    assert torch.equal(other.decode_head.loss_decode.eta, eta)


def test_an_image_without_labels_gives_a_zero_loss_with_gradients():
    logits = torch.randn(1, 4, 3, 3, requires_grad=True)
    label = torch.full((1, 3, 3), 255)
    loss = RandomPriorCrossEntropyLoss(4)(logits, label)
    loss.backward()
    assert loss == 0 and not logits.grad.any()


def test_mistakes_get_a_sentence():
    with pytest.raises(ValueError, match="rule='random'"):
        RandomPriorCrossEntropyLoss(4, rule='random')
    with pytest.raises(ValueError, match='weight=0.5'):
        RandomPriorCrossEntropyLoss(4, weight=0.5)
