import pytest
import torch
import torch.nn.functional as F
from mmengine.structures import PixelData
from mmseg.models.losses import CrossEntropyLoss
from mmseg.structures import SegDataSample
from toys import CLASSES, bayesian_config, build

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
        type='RandomPriorCrossEntropyLoss', seed=3)
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


def prior_config(**loss):
    """The toy with the loss in both heads."""
    cfg = bayesian_config()
    loss = dict(type='RandomPriorCrossEntropyLoss', **loss)
    cfg['decode_head']['loss_decode'] = loss
    cfg['auxiliary_head']['loss_decode'] = [loss]
    return cfg


def labelled(model, labels):
    """The losses of a training step on noise with these labels."""
    sample = SegDataSample(
        gt_sem_seg=PixelData(data=labels),
        metainfo=dict(img_shape=labels.shape[1:]))
    return model.train().loss(torch.randn(1, 3, *labels.shape[1:]), [sample])


def test_the_head_says_how_many_classes_there_are():
    model = build(prior_config())
    assert len(model.decode_head.loss_decode.eta) == CLASSES
    assert len(model.auxiliary_head.loss_decode[0].eta) == CLASSES
    assert sum(key.endswith('.eta') for key in model.state_dict()) == 2


@pytest.mark.parametrize('ignore', [255, 0, -100])
@pytest.mark.parametrize('class_weight', [None, [1., 2., 0.5, 4.]])
def test_without_a_prior_it_is_the_loss_of_mmseg(ignore, class_weight):
    logits, label = torch.randn(2, 4, 5, 6), torch.randint(0, 4, (2, 5, 6))
    label[0, :2] = ignore
    ours = RandomPriorCrossEntropyLoss(
        4, rule='none', class_weight=class_weight)
    actual = ours(logits, label, ignore_index=ignore)
    expected = F.cross_entropy(
        logits, label, ignore_index=ignore,
        weight=class_weight and torch.tensor(class_weight))
    assert torch.allclose(actual, expected)


def test_class_weights_multiply_the_prior():
    weights = torch.tensor([1., 2., 0.5])
    loss = RandomPriorCrossEntropyLoss(
        3, weight=7., class_weight=weights.tolist())
    logits, label = torch.randn(1, 3, 4, 4), torch.randint(0, 3, (1, 4, 4))
    nll = F.cross_entropy(logits, label, reduction='none')
    both = (1 + loss.eta) * weights
    expected = (both[label] * nll).sum() / weights[label].sum()
    assert torch.allclose(loss(logits, label), expected)
    pixels = loss(logits, label, reduction_override='none')
    assert torch.allclose(pixels, both[label] * nll)


@pytest.mark.parametrize('channels', [1, 3])
def test_a_sigmoid_without_a_prior_is_the_loss_of_mmseg(channels):
    classes = max(2, channels)
    logits = torch.randn(2, channels, 4, 5)
    label = torch.randint(0, classes, (2, 4, 5))
    ours = RandomPriorCrossEntropyLoss(
        classes, rule='none', use_sigmoid=True)
    theirs = CrossEntropyLoss(use_sigmoid=True)
    assert torch.allclose(ours(logits, label), theirs(logits, label))
    half = label.clone()
    half[1] = 255
    # Ignored pixels count neither above nor below the line.
    assert torch.allclose(ours(logits, half), ours(logits[:1], label[:1]))


def test_a_head_with_one_channel_has_a_prior_on_two_classes():
    cfg = prior_config(use_sigmoid=True, weight=7., class_weight=[3.])
    for head in ('decode_head', 'auxiliary_head'):
        cfg[head].update(num_classes=2, out_channels=1, threshold=0.5)
    model = build(cfg)
    loss = model.decode_head.loss_decode
    assert sorted(loss.eta.tolist()) == [0., 6.]
    assert loss.class_weight == [1., 3.]
    labels = torch.zeros(1, 32, 48, dtype=torch.long)
    labels[:, :16], labels[:, 20:] = 1, 255
    losses = labelled(model, labels)
    losses['decode.loss_ce'].backward()
    assert losses['decode.loss_ce'] > 0
    logits, label = torch.randn(1, 1, 1, 3), torch.tensor([[[0, 1, 255]]])
    nll = F.binary_cross_entropy_with_logits(
        logits[0, 0, 0, :2], torch.tensor([0., 1.]), reduction='none')
    weight = torch.tensor([1., 3.])
    assert torch.allclose(
        loss(logits, label), ((1 + loss.eta) * weight * nll).sum() / 4)


@pytest.mark.parametrize('options, message', [
    (dict(num_classes=4), 'num_classes=4 .*head has 5; leave num_classes'),
    (dict(class_weight=[1., 2.]), '2 numbers for 5 classes; write one'),
])
def test_what_does_not_fit_the_head_gets_a_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        build(prior_config(**options))


def test_what_does_not_fit_the_images_gets_a_sentence():
    label = torch.zeros(1, 2, 2, dtype=torch.long)
    with pytest.raises(ValueError, match='does not know the number'):
        RandomPriorCrossEntropyLoss()(torch.randn(1, 3, 2, 2), label)
    with pytest.raises(ValueError, match='4 classes, .* 3 channels'):
        RandomPriorCrossEntropyLoss(4)(torch.randn(1, 3, 2, 2), label)
    with pytest.raises(ValueError, match='a label is 2, .* 2 classes'):
        RandomPriorCrossEntropyLoss(2)(torch.randn(1, 1, 2, 2), label + 2)
