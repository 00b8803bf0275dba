"""A pass lives in its own context: threads, errors, and users' forwards."""
import copy
import pickle
import threading

import pytest
import torch
from mmengine.config import ConfigDict
from mmseg.structures import SegDataSample
from test_fitted_posteriors import KINDS, fitted
from torch.overrides import TorchFunctionMode
from toys import bayesian_config, build

from abnn_mmseg.members.files import norm_state
from abnn_mmseg.models.students import DESIGNS, new_student

POSTERIORS = [
    dict(scope='all'),
    dict(scope='decode_head', draws_per_pass=2),
    dict(scope='late', views=dict(flips='horizontal', scales=0.5)),
    dict(noise='element'),
    dict(type='DropoutPosterior', rate=0.4, samples=4),
]


def model_with(posterior: dict, **segmentor):
    cfg = bayesian_config(**segmentor)
    cfg['posterior'] = dict(
        dict(type='BNLPosterior', alpha=0.3, samples=4), **posterior)
    if cfg['posterior']['type'] != 'BNLPosterior':
        cfg['posterior'] = posterior
    return build(cfg)


def entropy(model, images):
    with torch.no_grad():
        return model.predict(images)[0].uncertainty.entropy


@pytest.mark.parametrize('posterior', POSTERIORS, ids=str)
def test_threads_get_the_serial_result(posterior):
    """Two threads, each with its own image, a hundred predictions each."""
    model = model_with(posterior)
    generator = torch.Generator().manual_seed(0)
    pictures = torch.randn(2, 1, 3, 24, 32, generator=generator)
    expected = [entropy(model, picture) for picture in pictures]
    wrong, errors = [0, 0], []

    def work(i: int) -> None:
        try:
            for _ in range(100):
                wrong[i] += not torch.equal(
                    entropy(model, pictures[i]), expected[i])
        except Exception as error:  # must reach the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i, )) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and wrong == [0, 0]


def test_threads_take_turns_at_an_ensemble(tmp_path):
    paths = []
    for seed in range(2):
        paths.append(str(tmp_path / f'{seed}.pth'))
        torch.save(build(bayesian_config(), seed).state_dict(), paths[-1])
    model = model_with(dict(type='EnsemblePosterior', checkpoints=paths))
    pictures = torch.randn(2, 1, 3, 24, 32)
    expected = [entropy(model, picture) for picture in pictures]
    wrong = []

    def work(i: int) -> None:
        for _ in range(20):
            if not torch.equal(entropy(model, pictures[i]), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i, )) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize('posterior', POSTERIORS, ids=str)
def test_an_error_in_the_middle_leaves_the_model_as_it_was(posterior, images):
    model = model_with(posterior)
    expected = entropy(model, images)
    plain = model(images, mode='tensor')

    def fail(*_):
        raise KeyError('in the middle')

    handle = model.decode_head.conv_seg.register_forward_hook(fail)
    with pytest.raises(KeyError):
        entropy(model, images)
    handle.remove()
    assert torch.equal(model(images, mode='tensor'), plain)
    assert torch.equal(entropy(model, images), expected)


def test_predictions_nest(images):
    """A hook that predicts with the same model does not disturb it."""
    model = model_with(dict(scope='decode_head'))
    expected, inner = entropy(model, images), []

    def predict(*_):
        if len(inner) < 1:
            inner.append(None)
            inner[0] = model.posterior.noise_free()
            shape = images.shape[2:]
            metas = [dict(ori_shape=shape, img_shape=shape)] * len(images)
            model.answer(images, metas, inner[0])

    model.decode_head.bottleneck.register_forward_hook(predict)
    assert torch.equal(entropy(model, images), expected)
    assert inner


def test_a_user_s_own_forward_survives(images):
    model = model_with(dict(scope='decode_head'))
    before = entropy(model, images)
    own = model.backbone.forward
    model.backbone.forward = lambda x: own(x * 0.5)
    first, second = entropy(model, images), entropy(model, images)
    assert 'forward' in vars(model.backbone)
    assert torch.equal(first, second) and not torch.equal(first, before)
    del model.backbone.forward
    assert torch.equal(entropy(model, images), before)


@pytest.mark.parametrize('norm', [None, dict(type='SyncBN')], ids=str)
def test_a_model_that_has_predicted_can_be_copied_and_pickled(norm, images):
    model = build(bayesian_config(norm, posterior=dict(scope='decode_head')))
    expected = entropy(model, images)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(entropy(other, images), expected)
        other.backbone.conv1.weight.data.zero_()
    assert torch.equal(entropy(model, images), expected)


@pytest.mark.parametrize('mode', ['whole', 'slide'])
@pytest.mark.parametrize('posterior', POSTERIORS, ids=str)
def test_no_tensor_is_made_on_another_device(posterior, mode):
    """On the meta device, an operation with a CPU tensor fails."""
    if posterior.get('noise') == 'element':
        pytest.skip('its noise is made on the CPU, and then moved')
    model = model_with(posterior, test_cfg=ConfigDict(
        mode=mode, crop_size=(16, 16), stride=(16, 16))).to('meta')
    images = torch.empty(2, 3, 32, 48, device='meta')
    metas = [dict(ori_shape=(30, 40), img_shape=(32, 48))] * 2
    with torch.no_grad():
        answer = model.answer(
            images, metas, predictions=('posterior_mean', 'centre', 'base'))
    for statistics in answer.predictions.values():
        assert statistics[0].probability.device.type == 'meta'
        assert statistics[0].probability.shape == (5, 30, 40)


@pytest.mark.parametrize('mode', ['whole', 'slide'])
@pytest.mark.parametrize('views', [None, dict(flips='horizontal', scales=0.5)],
                         ids=['one view', 'views'])
@pytest.mark.parametrize('kind', [*KINDS, *DESIGNS])
def test_fitted_posteriors_stay_on_the_device_too(kind, views, mode):
    model = fitted_model(kind, views, mode).to('meta')
    images = torch.empty(2, 3, 32, 48, device='meta')
    metas = [dict(ori_shape=(30, 40), img_shape=(32, 48))] * 2
    with torch.no_grad(), Unequal():
        answer = model.answer(
            images, metas, predictions=('posterior_mean', 'centre', 'base'))
    for statistics in (answer.statistics, *answer.predictions.values()):
        assert statistics[0].probability.device.type == 'meta'
        assert statistics[0].probability.shape == (5, 30, 40)


@torch.no_grad()
@pytest.mark.parametrize('prediction', ['posterior_mean', 'centre', 'base'])
@pytest.mark.parametrize('kind', [*KINDS, *DESIGNS])
def test_the_host_waits_once_for_fitted_posteriors_too(kind, prediction,
                                                       images):
    model = fitted_model(kind, prediction=prediction)
    model.predict(images)  # asks once where members differ from the base
    with HostWaits() as waits:
        model.predict(images)
    assert waits.found == ['tolist']


def fitted_model(kind, views=None, mode='whole', prediction='base'):
    """A model around a fitted posterior, or a student of a design."""
    test_cfg = ConfigDict(mode=mode, crop_size=(16, 16), stride=(16, 16))
    name = kind if kind in KINDS else 'DistilledPosterior'
    model = build(bayesian_config())
    other = build(dict(
        bayesian_config(test_cfg=test_cfg, prediction=prediction),
        posterior=dict(type=name, views=views)))
    other.load_state_dict(model.state_dict())
    if kind == 'SampledPosterior':
        state = norm_state(model)
        other.posterior.set_members([state, {
            name: value * 1.1 for name, value in state.items()}])
    elif kind in KINDS:
        other.posterior.set_members([fitted(model, kind)])
    else:
        other.posterior.student = new_student(
            model, torch.randn(1, 3, 32, 48), kind, width=8,
            networks=4).eval()
    return other


def test_a_training_step_stays_on_its_device():
    model = build(bayesian_config()).to('meta').train()
    logits = model(torch.empty(2, 3, 32, 48, device='meta'), mode='tensor')
    logits.sum().backward()
    assert model.backbone.bn1.weight.grad.device.type == 'meta'


class Unequal(TorchFunctionMode):
    """No two tensors are equal; without values, torch cannot compare them."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.equal:
            assert args[0].device == args[1].device
            return False
        return func(*args, **(kwargs or {}))


class HostWaits(TorchFunctionMode):
    """Notes what makes the host wait for the device, on a GPU."""

    NAMES = {'item', 'tolist', 'cpu', 'numpy', 'equal', 'allclose', 'nonzero',
             'masked_select', 'unique', '__bool__', '__int__', '__float__',
             '__index__', '__contains__'}

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, '__name__', '')
        if name in self.NAMES or name == '__getitem__' and _is_mask(args[1]):
            self.found.append(name)
        return func(*args, **(kwargs or {}))


def _is_mask(index):
    return any(isinstance(part, torch.Tensor) and part.dtype == torch.bool
               for part in (index if isinstance(index, tuple) else [index]))


@torch.no_grad()
@pytest.mark.parametrize('prediction', ['posterior_mean', 'centre', 'base'])
@pytest.mark.parametrize('posterior', POSTERIORS, ids=str)
def test_the_host_waits_once_for_a_batch(posterior, prediction):
    """The list of all waits is in docs/architecture.md."""
    model = model_with(
        posterior, prediction=prediction, test_cfg=ConfigDict(
            mode='slide', crop_size=(16, 32), stride=(16, 16)),
        data_preprocessor=dict(type='SegDataPreProcessor', mean=[9.] * 3,
                               std=[2.] * 3))
    data = dict(inputs=[torch.zeros(3, 32, 48)] * 2, data_samples=[
        SegDataSample(metainfo=dict(ori_shape=(30, 40))) for _ in range(2)])
    with HostWaits() as waits:
        model.test_step(data)
    assert waits.found == ['tolist']


@torch.no_grad()
def test_members_and_the_tolerance_cost_known_waits(images):
    model = model_with(dict(tolerance=1e-6, samples=4))
    member = {name: value * 1.1 for name, value in norm_state(model).items()}
    model.posterior.set_members([member])
    with HostWaits() as waits:
        model.predict(images)
    compared = waits.found.count('equal')
    # Rounds of two networks, then the result.
    assert compared > 0
    assert waits.found == ['equal'] * compared + ['tolist'] * 3
    with HostWaits() as waits:
        model.predict(images)
    assert waits.found == ['tolist'] * 3
