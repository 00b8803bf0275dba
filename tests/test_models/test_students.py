"""What a student's head gives, and what its losses ask for."""
import pytest
import torch
from toys import bayesian_config, build

from abnn_mmseg.engine.distillation import ask, distillation_losses
from abnn_mmseg.members.files import (
    fingerprint,
    load_members,
    save_members,
    store,
)
from abnn_mmseg.members.students import (
    KEY,
    norm_fingerprint,
    student_state,
)
from abnn_mmseg.models.posteriors import BNLPosterior, DistilledPosterior
from abnn_mmseg.models.students import DESIGNS, NAMES, Student, new_student
from abnn_mmseg.uncertainty import StreamingStatistics


@pytest.fixture
def model():
    return build(bayesian_config(
        prediction='base', posterior=dict(alpha=0.5)))


@pytest.fixture(params=DESIGNS)
def posterior(request, model, images):
    """A student that has learnt nothing yet."""
    posterior = DistilledPosterior()
    posterior.attach(model)
    posterior.student = new_student(
        model, images, request.param, width=8, networks=8).eval()
    return posterior


@torch.no_grad()
def test_before_it_learns_a_student_says_what_the_base_says(
        model, posterior, images):
    base = BNLPosterior(alpha=0., samples=1)
    base.attach(model)
    for ours, theirs in zip(ask(model, posterior, images),
                            ask(model, base, images)):
        for name in ('probability', 'logits'):
            assert torch.allclose(
                getattr(ours, name), getattr(theirs, name), atol=1e-5)
        assert ours.count == 8
        assert (ours.expected_entropy < theirs.expected_entropy).all()


@torch.no_grad()
@pytest.mark.parametrize('dtype, off', [
    (torch.float64, 1e-5), (torch.float16, 0.01), (torch.bfloat16, 0.1)])
def test_a_student_follows_the_type_of_the_model(
        model, posterior, images, dtype, off):
    [expected, *_] = ask(model, posterior, images)
    [found, *_] = ask(model.to(dtype), posterior, images.to(dtype))
    assert torch.allclose(
        found.probability, expected.probability.to(found.probability),
        atol=off)


def test_statistics_of_means_are_those_of_the_networks():
    logits = torch.randn(6, 5, 4, 3)
    seen, told = StreamingStatistics(), StreamingStatistics()
    seen.update(logits)
    for part in logits.split((2, 4)):
        some = StreamingStatistics()
        some.update(part)
        told.include({n: getattr(some, n) for n in NAMES}, len(part))
    for name in NAMES:
        assert torch.allclose(
            getattr(seen, name), getattr(told, name), atol=1e-6)


def test_losses_are_least_where_the_student_says_what_the_teacher_says():
    target = StreamingStatistics()
    target.update(3 * torch.randn(4, 5, 6, 7))
    exact = {name: getattr(target, name) for name in NAMES}
    for name in NAMES:
        mean = exact[name].clone().requires_grad_()
        other = exact[name] * 0.9 + 0.1 * exact[name].mean()
        if name == 'probability':
            other = exact[name] * 0.9 + 0.1 / 5
        least = distillation_losses({name: mean}, target)[name]
        assert least < distillation_losses({name: other}, target)[name]
        if name != 'probability':
            least.backward()
            assert mean.grad.abs().max() < 1e-6


@torch.no_grad()
def test_random_networks_are_those_of_the_posterior(model, images):
    posterior = model.posterior
    posterior.views = dict(flips=('horizontal', ))
    parts = [ask(model, posterior, images, numbers=numbers)[0]
             for numbers in ([0, 3], [2, 1])]
    whole = ask(model, posterior, images)[0]
    before = parts[0].probability
    parts[0].merge(parts[1])
    assert torch.allclose(parts[0].probability, whole.probability, atol=1e-5)
    posterior.seed += 5
    other = ask(model, posterior, images, numbers=[0, 3])[0]
    assert not torch.allclose(other.probability, before)


def test_a_file_keeps_the_student_and_what_is_fitted_to_it(
        model, posterior, images, tmp_path):
    head = posterior.student
    for output in head.outputs.values():
        torch.nn.init.normal_(output.weight)
    if head.network is not None:
        with torch.no_grad():
            for parameter in head.network.parameters():
                parameter.mul_(1.1)
    meta = {'kind': KEY, KEY: dict(base_norms=norm_fingerprint(model))}
    path = tmp_path / 'student.pth'
    save_members(path, [dict(state=student_state(head), meta=meta)],
                 fingerprint(model))
    store(path, 'thresholds', dict(entropy=0.7), posterior.noise_settings)
    loaded = DistilledPosterior()
    loaded.attach(model)
    load_members(model, path, loaded)
    assert loaded.thresholds == dict(entropy=0.7)
    with torch.no_grad():
        for ours, theirs in zip(ask(model, loaded, images),
                                ask(model, posterior, images)):
            for name in NAMES:
                # Kernels are stored in half precision.
                assert torch.allclose(getattr(ours, name),
                                      getattr(theirs, name), atol=0.02)
    with pytest.raises(ValueError, match='2 students were given'):
        loaded.set_members([student_state(head)] * 2)


def test_a_head_is_built_of_its_state():
    head = Student([3, 7], 4, statistics=('second_moment', 'probability'),
                       width=6, networks=5)
    again = Student.of_state(head.state_dict())
    assert again.statistics == ('probability', 'second_moment')
    assert (again.classes, again.count) == (4, 5)


def test_a_network_with_one_channel_has_two_classes(images):
    cfg = bayesian_config(auxiliary=False, prediction='base')
    cfg['decode_head'].update(num_classes=2, out_channels=1, threshold=0.3)
    model = build(cfg)
    posterior = DistilledPosterior()
    posterior.attach(model)
    posterior.student = new_student(model, images, width=4).eval()
    base = model.posterior
    base.alpha, base.samples = 0., 1
    with torch.no_grad():
        [plain, _] = model.predict(images)
        model.posterior = posterior
        [sample, _] = model.predict(images)
    assert torch.equal(sample.pred_sem_seg.data, plain.pred_sem_seg.data)
    assert posterior.student.classes == 2
