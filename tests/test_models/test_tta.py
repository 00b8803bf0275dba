"""A Bayesian segmentor inside mmseg's test-time augmentation."""
import pytest
import torch
from mmengine.runner import Runner
from mmengine.testing import assert_allclose
from mmseg.models.segmentors import SegTTAModel
from mmseg.registry import MODELS
from mmseg.structures import SegDataSample
from toys import bayesian_config, build, toy_config

from abnn_mmseg.engine.hooks.audit_hook import AuditHook
from abnn_mmseg.uncertainty import SCORES

PREPROCESSOR = dict(type='SegDataPreProcessor')


def wrapped(model):
    return MODELS.build(dict(type='SegTTAModel', module=model))


def sample(flip):
    return SegDataSample(metainfo=dict(
        ori_shape=(32, 48), img_shape=(32, 48), img_path='a.png', flip=flip,
        flip_direction='horizontal' if flip else None))


@pytest.fixture
def data(images):
    """Two images, each as it is and flipped, as ``TestTimeAug`` packs it."""
    return dict(
        inputs=[list(images), list(images.flip(-1))],
        data_samples=[[sample(flip), sample(flip)] for flip in (False, True)])


@torch.no_grad()
@pytest.mark.parametrize('prediction', ['posterior_mean', 'centre'])
def test_the_networks_of_all_augmentations_are_pooled(data, images,
                                                      prediction):
    model = build(bayesian_config(
        data_preprocessor=PREPROCESSOR, prediction=prediction,
        scores=tuple(SCORES)))
    results = wrapped(model).test_step(data)
    views = [model.predict(images), model.predict(images.flip(-1))]
    for i, result in enumerate(results):
        assert result.metainfo['draws'] == 2 * model.posterior.samples
        maps = result.uncertainty
        upright = views[0][i]
        flipped = views[1][i]
        mean = (upright.seg_logits.data.exp() +
                flipped.seg_logits.data.exp().flip(-1)) / 2
        assert_allclose(result.seg_logits.data.exp(), mean,
                        atol=1e-6, rtol=1e-5)
        assert torch.equal(result.pred_sem_seg.data[0], mean.argmax(0))
        means = {
            name: (upright.uncertainty.get(name) +
                   flipped.uncertainty.get(name).flip(-1)) / 2
            for name in ('expected_entropy', 'max_logit', 'energy')
        }
        assert torch.allclose(
            maps.expected_entropy, means['expected_entropy'], atol=1e-5)
        # Jensen: the mean logits of views are never as sure as the views.
        assert (maps.max_logit >= means['max_logit'] - 1e-5).all()
        assert (maps.energy >= means['energy'] - 1e-5).all()
        if prediction == 'posterior_mean':
            entropy = torch.special.entr(mean).sum(0)
            assert torch.allclose(maps.entropy[0], entropy, atol=1e-5)
        # Views disagree, so what they say together is less certain.
        assert maps.variance.mean() > upright.uncertainty.variance.mean()


@torch.no_grad()
def test_other_segmentors_are_merged_as_mmseg_does(data):
    model = build(toy_config(data_preprocessor=PREPROCESSOR))
    ours = wrapped(model).test_step(data)
    theirs = SegTTAModel(model).test_step(data)
    for a, b in zip(ours, theirs):
        assert torch.equal(a.pred_sem_seg.data, b.pred_sem_seg.data)


def test_the_audit_looks_inside(tmp_path):
    model = wrapped(build(bayesian_config(data_preprocessor=PREPROCESSOR)))
    runner = Runner(model=model, work_dir=str(tmp_path),
                    experiment_name='tta_audit', default_scope='mmseg')
    AuditHook().before_test(runner)
    model.module.decode_head.bottleneck.bn = torch.nn.BatchNorm2d(8)
    with pytest.raises(RuntimeError, match='Bayesian layers are gone'):
        AuditHook().before_test(runner)


@torch.no_grad()
def test_nan_is_refused(data):
    model = build(bayesian_config(data_preprocessor=PREPROCESSOR))
    data['inputs'][1][0] *= float('nan')
    with pytest.raises(ValueError, match='input of the segmentor holds NaN'):
        wrapped(model).test_step(data)
