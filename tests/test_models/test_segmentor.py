import pytest
import torch
from mmengine.config import Config, ConfigDict
from mmengine.structures import PixelData
from mmseg.registry import MODELS
from mmseg.structures import SegDataSample
from toys import bayesian_config, build, toy_config

from abnn_mmseg.uncertainty import SCORES


def both(**options):
    """The plain toy and the Bayesian one with the same weights."""
    plain = build(toy_config())
    bayesian = build(bayesian_config(**options))
    bayesian.load_state_dict(plain.state_dict(), strict=True)
    return plain, bayesian


def samples(images, labels=None):
    result = []
    for i in range(len(images)):
        sample = SegDataSample(metainfo=dict(
            ori_shape=images.shape[2:], img_shape=images.shape[2:]))
        if labels is not None:
            sample.gt_sem_seg = PixelData(data=labels[i:i + 1])
        result.append(sample)
    return result


@torch.no_grad()
def test_alpha_zero_is_the_original_model_bit_for_bit(images):
    plain, bayesian = both(alpha=0.)
    expected, actual = plain.predict(images), bayesian.predict(images)
    for e, a in zip(expected, actual):
        assert torch.equal(e.seg_logits.data.log_softmax(0),
                           a.seg_logits.data)
        assert torch.equal(e.pred_sem_seg.data, a.pred_sem_seg.data)
    for mode in ('tensor', ):
        assert torch.equal(plain(images, mode=mode),
                           bayesian(images, mode=mode))


def test_keys_are_those_of_the_batch_norm_model():
    plain, bayesian = both()
    assert list(plain.state_dict()) == list(bayesian.state_dict())


def test_sync_batch_norm_checkpoints_load_strictly():
    plain = build(toy_config())
    bayesian = build(bayesian_config(norm=dict(type='SyncBN')))
    bayesian.load_state_dict(plain.state_dict(), strict=True)
    with torch.no_grad():
        bayesian.posterior.alpha = 0.
        bayesian.posterior.attach(bayesian)
        x = torch.randn(1, 3, 32, 32)
        assert torch.equal(plain(x, mode='tensor'), bayesian(x, mode='tensor'))


def test_only_norms_are_trainable_from_the_constructor_on():
    model = build(bayesian_config())
    trainable = {n for n, p in model.named_parameters() if p.requires_grad}
    expected = {
        f'{name}.{kind}'
        for name in model.conversion.converted for kind in ('weight', 'bias')
    }
    assert trainable == expected and len(model.conversion.converted) > 10


def test_scope_limits_what_trains_and_what_is_noisy():
    model = build(bayesian_config(posterior=dict(scope='decode_head'))).train()
    for name, layer in model.named_modules():
        if name in model.conversion.converted:
            inside = name.startswith('decode_head')
            assert layer.weight.requires_grad == inside
            assert (layer.noise == ('channel', 0.2)) == inside


def test_all_norms_train_though_one_part_is_noisy():
    model = build(bayesian_config(
        finetune='all', posterior=dict(scope='decode_head'))).train()
    for name, layer in model.named_modules():
        if name in model.conversion.converted:
            assert layer.weight.requires_grad
            inside = name.startswith('decode_head')
            assert (layer.noise == ('channel', 0.2)) == inside


def test_noise_is_on_in_training_and_off_in_eval(images):
    model = build(bayesian_config())
    assert torch.equal(model(images, mode='tensor'),
                       model(images, mode='tensor'))
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout2d):
            module.p = 0.
    assert not torch.equal(model(images, mode='tensor'),
                           model(images, mode='tensor'))


@torch.no_grad()
def test_predictions_carry_every_requested_map(images):
    model = build(bayesian_config(scores=tuple(SCORES)))
    for sample in model.predict(images, samples(images)):
        assert set(sample.uncertainty.keys()) == set(SCORES)
        for name in SCORES:
            assert sample.uncertainty.get(name).shape == (1, 32, 48)
        probability = sample.seg_logits.data.exp()
        assert torch.allclose(probability.sum(0), torch.ones(32, 48))
        assert torch.equal(sample.pred_sem_seg.data[0], probability.argmax(0))
        assert sample.metainfo['draws'] == 4


@torch.no_grad()
def test_maps_come_out_at_the_original_resolution(images):
    model = build(bayesian_config())
    data = samples(images)
    for sample in data:
        sample.set_metainfo(dict(
            ori_shape=(50, 70), img_padding_size=(0, 4, 0, 2), flip=True,
            flip_direction='horizontal'))
    for sample in model.predict(images, data):
        assert sample.uncertainty.entropy.shape == (1, 50, 70)
        assert sample.seg_logits.data.shape[1:] == (50, 70)


@torch.no_grad()
def test_padding_flip_and_resize_are_undone_as_mmseg_does(images):
    plain, bayesian = both(alpha=1e-6)
    meta = dict(ori_shape=(50, 70), img_padding_size=(0, 4, 0, 2), flip=True,
                flip_direction='horizontal')
    results = []
    for model in (plain, bayesian):
        data = samples(images)
        for sample in data:
            sample.set_metainfo(meta)
        results.append(model.predict(images, data)[0].seg_logits.data)
    assert torch.allclose(results[0].softmax(0), results[1].exp(), atol=1e-4)


@torch.no_grad()
def test_an_image_does_not_depend_on_the_rest_of_its_batch(images):
    model = build(bayesian_config())
    together = model.predict(images, samples(images))[1]
    alone = model.predict(images[1:], samples(images[1:]))[0]
    assert torch.allclose(together.uncertainty.mutual_information,
                          alone.uncertainty.mutual_information, atol=1e-6)


def slide_config(**options):
    return bayesian_config(
        test_cfg=ConfigDict(
            mode='slide', crop_size=(32, 32), stride=(16, 16)), **options)


@torch.no_grad()
def test_windows_have_no_seams():
    """On a constant image all windows are alike, so the map repeats."""
    model = build(slide_config())
    image = torch.full((1, 3, 32, 64), 0.3)
    [sample] = model.predict(image)
    map_ = sample.uncertainty.mutual_information[0]
    assert torch.allclose(map_[:, 16:32], map_[:, 32:48], atol=1e-6)
    assert map_.max() > 1e-3


@torch.no_grad()
def test_slide_equals_mmseg_slide_for_the_plain_network():
    cfg = slide_config(alpha=1e-6)
    model = build(cfg)
    image = torch.randn(1, 3, 40, 72)
    metas = [dict(ori_shape=(40, 72), img_shape=(40, 72))]
    expected = model.slide_inference(image, metas).softmax(1)[0]
    actual = model.predict(image)[0].seg_logits.data.exp()
    assert torch.allclose(expected, actual, atol=1e-4)


@torch.no_grad()
def test_centre_takes_the_class_map_from_the_noise_free_network(images):
    plain, bayesian = both(alpha=0.5, prediction='centre')
    centre = bayesian.predict(images)[0]
    expected = plain.predict(images)[0]
    assert torch.equal(centre.pred_sem_seg.data, expected.pred_sem_seg.data)
    assert torch.allclose(centre.seg_logits.data.exp(),
                          expected.seg_logits.data.softmax(0), atol=1e-6)
    bayesian.prediction = 'posterior_mean'
    drawn = bayesian.predict(images)[0]
    assert torch.equal(centre.uncertainty.entropy, drawn.uncertainty.entropy)


@torch.no_grad()
def test_tolerance_stops_drawing_when_the_map_is_settled(images):
    loose = build(bayesian_config(
        samples=16, posterior=dict(tolerance=1.)))
    strict = build(bayesian_config(
        samples=16, posterior=dict(tolerance=1e-9)))
    assert loose.predict(images)[0].metainfo['draws'] == 2
    assert strict.predict(images)[0].metainfo['draws'] == 16


@torch.no_grad()
def test_a_sigmoid_head_has_maps_of_two_classes(images):
    cfg = bayesian_config(auxiliary=False)
    cfg['decode_head'].update(num_classes=2, out_channels=1, threshold=0.5,
                              loss_decode=dict(type='CrossEntropyLoss',
                                               use_sigmoid=True))
    [sample, _] = build(cfg).predict(images)
    assert sample.seg_logits.data.shape == (2, 32, 48)
    probability = sample.seg_logits.data.exp()
    assert torch.allclose(probability.sum(0), torch.ones(32, 48))
    foreground = probability[1:]
    assert torch.equal(sample.pred_sem_seg.data, (foreground > .5).float())
    msp = 1 - torch.maximum(foreground, 1 - foreground)
    assert torch.allclose(sample.uncertainty.msp, msp, atol=1e-6)


@pytest.mark.parametrize('logit', [-200., 200.])
@torch.no_grad()
def test_a_sigmoid_of_zero_or_one_has_a_finite_energy(images, logit):
    """A deterministic prediction has only the probability left."""
    cfg = bayesian_config(auxiliary=False, alpha=0.,
                          scores=('entropy', 'max_logit', 'energy'))
    cfg['decode_head'].update(num_classes=2, out_channels=1, threshold=0.5,
                              loss_decode=dict(type='CrossEntropyLoss',
                                               use_sigmoid=True))
    model = build(cfg)
    model.decode_head.conv_seg.weight.zero_()
    model.decode_head.conv_seg.bias.fill_(logit)
    [sample, _] = model.predict(images)
    foreground = sample.seg_logits.data[1].exp()
    assert torch.allclose(foreground, torch.tensor(float(logit > 0)))
    for name, map_ in sample.uncertainty.items():
        assert map_.isfinite().all(), name


@pytest.mark.parametrize('norm,options,message', [
    (dict(type='IN', affine=False), {},
     r'\(none; left \d+ instance \(.*\): no affine parameters\)'),
    (None, {}, r'\(none\)'),
    (dict(type='BN'), dict(exclude='*'), r'left \d+ batch .*: excluded'),
])
def test_a_model_with_nothing_to_convert_is_refused(norm, options, message):
    """One sentence, with what was found and the remedy."""
    cfg = bayesian_config(auxiliary=False, **options)
    cfg['backbone'] = dict(type='UNet', base_channels=4, num_stages=2,
                           strides=(1, 1), enc_num_convs=(1, 1),
                           dec_num_convs=(1, ), downsamples=(True, ),
                           enc_dilations=(1, 1), dec_dilations=(1, ),
                           norm_cfg=norm)
    cfg['decode_head'] = dict(type='FCNHead', in_channels=4, in_index=1,
                              channels=4, num_classes=5, norm_cfg=norm)
    with pytest.raises(ValueError, match=message) as error:
        MODELS.build(cfg)
    assert 'no normalization layer' in str(error.value)
    assert 'set norm_cfg' in str(error.value)


@pytest.mark.parametrize('options,message', [
    (dict(scores=('entropie', )), "did you mean 'entropy'"),
    (dict(prediction='center'), "prediction='center'"),
    (dict(finetune='head'), "finetune='head'"),
    (dict(posterior=dict(scope='neck')), "scope='neck' matches none"),
    (dict(samples=0), 'samples=0'),
    (dict(samples=3), 'samples=3 is odd'),
    (dict(alpha=-1.), 'alpha=-1'),
    (dict(posterior=dict(noise='pixel')), "noise='pixel'"),
    (dict(posterior=dict(draws_per_pass=0)), 'draws_per_pass=0'),
])
def test_mistakes_in_the_config_get_a_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        build(bayesian_config(**options))


def test_the_paper_s_network_trains_and_predicts():
    """R50-D8 as configured: 70 norms, one step, one prediction."""
    cfg = Config.fromfile('configs/abnn_deeplabv3plus_muad.py')
    cfg.model.posterior.samples = 2
    model = MODELS.build(cfg.model)
    assert len(model.conversion.converted) == 70
    norms = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert norms == 76480
    before = {k: v.clone() for k, v in model.state_dict().items()}
    optimizer = torch.optim.SGD(
        [p for p in model.parameters() if p.requires_grad], lr=0.1)
    x = torch.randn(2, 3, 64, 64)
    labels = torch.randint(0, 15, (2, 64, 64))
    labels[0, :8] = 255
    model.train()
    losses = model.loss(x, samples(x, labels))
    sum(v for k, v in losses.items() if 'loss' in k).backward()
    optimizer.step()
    for name, value in model.state_dict().items():
        is_norm = name.rpartition('.')[0] in model.conversion.converted
        parameter = name.endswith(('.weight', '.bias'))
        if not (is_norm and parameter):
            assert torch.equal(value, before[name]), name
        elif name.endswith('.bias'):
            assert not torch.equal(value, before[name]), name
    with torch.no_grad():
        [sample] = model.eval().predict(x[:1])
    assert sample.uncertainty.entropy.shape == (1, 64, 64)
