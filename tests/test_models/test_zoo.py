"""MMSegmentation's models, as it configures them but a fraction as wide."""
import copy

import pytest
import torch
from mmengine.registry import init_default_scope
from mmengine.structures import PixelData
from mmseg.structures import SegDataSample
from small_zoo import small_config
from torch import nn
from toys import build, naive_networks

from abnn_mmseg.members.files import load_base
from benchmarks.zoo_models import (
    ZOO,
    bayesian,
    what_is_missing,
)

# Their output is a class's share of masks, not a logit.
MASKS = ('SAN ViT-B', 'MaskFormer R50', 'Mask2Former R50')


@pytest.fixture(scope='module', params=list(ZOO))
def name(request):
    missing = what_is_missing(request.param)
    if missing:
        pytest.skip(f'{request.param} {missing}')
    init_default_scope('mmseg')
    return request.param


@pytest.fixture(scope='module')
def config(name):
    return small_config(name)


@pytest.fixture(scope='module')
def plain(config):
    # With seed 0 OCRNet is sure of one class everywhere.
    model = build(config, seed=3)
    if hasattr(model, 'text_encoder'):
        # Allocated by its constructor, filled by a checkpoint.
        nn.init.normal_(model.text_encoder.positional_embedding)
        nn.init.normal_(model.text_encoder.text_projection)
    return model


@pytest.fixture(scope='module')
def model(config, plain, tmp_path_factory):
    """The Bayesian model on the plain one's checkpoint."""
    path = tmp_path_factory.mktemp('zoo') / 'plain.pth'
    torch.save(dict(state_dict=plain.state_dict()), path)
    model = build(bayesian(config, alpha=0.2, samples=2), seed=1)
    load_base(model, path)
    return model


@pytest.fixture
def image():
    return torch.randn(1, 3, 64, 64)


def predict(model, image):
    # SegNeXt starts its matrix factorization at random bases.
    torch.manual_seed(1)
    with torch.no_grad():
        [sample] = model.predict(image)
    return sample


def set_posterior(model, **options):
    for key, value in options.items():
        setattr(model.posterior, key, value)
    model.posterior.attach(model)


def test_its_own_checkpoint_loads_strictly(model, plain):
    state, expected = model.state_dict(), plain.state_dict()
    assert list(state) == list(expected)
    for key, value in expected.items():
        assert torch.equal(state[key], value), key


def test_every_affine_norm_is_converted(model, plain):
    norms = [
        name for name, module in plain.named_modules()
        if type(module).__name__.endswith(('Norm', 'Norm2d'))
        and not name.startswith('text_encoder')
    ]
    assert list(model.conversion.converted) == norms
    assert len(norms) > 5


def test_alpha_zero_is_the_original_model_bit_for_bit(model, plain, image,
                                                      name):
    # torch.matmul chooses a kernel by requires_grad, gradients or not.
    plain.requires_grad_(name not in MASKS)
    set_posterior(model, alpha=0.)
    actual, expected = predict(model, image), predict(plain, image)
    set_posterior(model, alpha=0.2)
    assert torch.equal(actual.pred_sem_seg.data, expected.pred_sem_seg.data)
    logits = expected.seg_logits.data
    if name in MASKS:
        logits = logits.clamp_min(1e-6).log()
    assert torch.equal(actual.seg_logits.data, logits.log_softmax(0))


@pytest.mark.parametrize('scope', ['all', 'decode_head'])
def test_draws_are_separate_networks_with_maps(model, plain, image, scope,
                                               name):
    if (name, scope) == ('CGNet', 'decode_head'):
        scope = 'backbone.level2'  # its head has no norm
    set_posterior(model, scope=scope)
    # Twice: a model that vmap cannot run says so in the first prediction.
    for _ in range(2):
        sample = predict(model, image)
    networks = list(naive_networks(plain, model.posterior))
    torch.manual_seed(1)
    with torch.no_grad():
        outputs = torch.stack(
            [n.predict(image)[0].seg_logits.data for n in networks])
    if name in MASKS:
        probabilities = outputs / outputs.sum(1, keepdim=True)
    else:
        probabilities = outputs.softmax(1)
    spread = probabilities.std(0, unbiased=False)
    assert spread.max() > 1e-3
    error = sample.seg_logits.data.exp() - probabilities.mean(0)
    assert error.abs().max() < 0.01 * spread.max()
    error = sample.uncertainty.variance[0] - spread.square().sum(0)
    assert error.abs().max() < 0.01 * spread.square().sum(0).max()


def test_a_class_without_any_mask_has_a_finite_logit(model, name):
    logits = model.to_logits(torch.tensor([0., 1e-3, 1.]))
    assert logits.isfinite().all()
    assert (logits[0] < -10) == (name in MASKS)


def test_one_step_moves_norm_parameters_only(model, image):
    model = copy.deepcopy(model).train()
    before = copy.deepcopy(model.state_dict())
    classes = model.num_classes
    sample = SegDataSample(metainfo=dict(
        img_shape=(64, 64), ori_shape=(64, 64), pad_shape=(64, 64)))
    sample.gt_sem_seg = PixelData(data=torch.randint(0, classes, (1, 64, 64)))
    losses = model.loss(image, [sample])
    loss, _ = model.parse_losses(losses)
    parameters = [p for p in model.parameters() if p.requires_grad]
    loss.backward()
    torch.optim.SGD(parameters, lr=0.1).step()
    norms = model.conversion.converted
    moved = {
        name.rpartition('.')[0]
        for name, value in model.state_dict().items()
        if not torch.equal(value, before[name])
    }
    assert moved <= set(norms)
    assert len(moved) > 0.8 * len(norms)
    for name in norms:
        assert isinstance(model.get_submodule(name).weight, nn.Parameter)
