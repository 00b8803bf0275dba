"""Numbers and names in a config that make no sense."""
import copy
import math
import resource
from pathlib import Path

import pytest
import torch
from mmengine.config import Config, ConfigDict
from mmseg.registry import METRICS, MODELS
from toys import bayesian_config, build, toy_config

from abnn_mmseg.cli.init import read_base
from abnn_mmseg.engine.loading import bayesian_model_cfg
from abnn_mmseg.export.writers import WriterSettings
from abnn_mmseg.utils.arguments import config_file

NAN, INF = math.nan, math.inf


def model(**options):
    """The toy with options of the segmentor or, if it has them, posterior."""
    posterior = options.pop('posterior', {})
    return MODELS.build(bayesian_config(posterior=posterior, **options))


def posterior(**options):
    return lambda: model(posterior=options)


def segmentor(**options):
    return lambda: model(**options)


def windows(**test_cfg):
    return lambda: model(test_cfg=ConfigDict(test_cfg))


def metric(name, **options):
    return lambda: METRICS.build(dict(type=name, **options))


def norm(name):
    return lambda: MODELS.build(bayesian_config(norm=dict(type=name)))


NO_NOISE = 'is not a noise level; write a number >= 0'
NO_DRAWS = 'of the posterior must be an integer of at least 1'
CASES = [
    (posterior(alpha=-0.1), f'alpha=-0.1 {NO_NOISE}'),
    (posterior(alpha=NAN), f'alpha=nan {NO_NOISE}'),
    (posterior(alpha=INF), f'alpha=inf {NO_NOISE}'),
    (posterior(alpha='much'), f"alpha='much' {NO_NOISE}"),
    (posterior(alpha=True), f'alpha=True {NO_NOISE}'),
    (posterior(samples=0), f'samples=0 {NO_DRAWS}'),
    (posterior(samples=-2), f'samples=-2 {NO_DRAWS}'),
    (posterior(samples=2.5), f'samples=2.5 {NO_DRAWS}'),
    (posterior(samples=True), f'samples=True {NO_DRAWS}'),
    (posterior(samples=3), 'samples=3 is odd.*samples=4 or antithetic=False'),
    (posterior(draws_per_pass=0), 'draws_per_pass=0 .* at least 1, or None'),
    (posterior(draws_per_pass=1.5), 'draws_per_pass=1.5 .* an integer'),
    (posterior(networks=True), 'networks=True .* an integer'),
    (posterior(seed='3'), "seed='3' .* must be an integer"),
    (posterior(seed=2**70), 'must be an integer such as seed=0'),
    (posterior(tolerance='low'), "tolerance='low' must be positive"),
    (posterior(tolerance=-1.), 'tolerance=-1.0 must be positive'),
    (posterior(tolerance=NAN), 'tolerance=nan must be positive'),
    (posterior(noise='pixel'), "noise='pixel' is unknown; did you mean"),
    (posterior(scope='decode_haed'),
     "scope='decode_haed' matches none of .* did you mean 'decode_head'"),
    (posterior(scope=['all', 'layer9']), "scope='layer9' matches none"),
    (posterior(scope=[]), r'scope=\[\] names no layer'),
    (segmentor(scores=('entropie', )), "did you mean 'entropy'"),
    (segmentor(scores='mutual_info'), "did you mean 'mutual_information'"),
    (segmentor(prediction='center'), "did you mean 'centre'"),
    (segmentor(prediction='bass'), "did you mean 'base'"),
    (segmentor(statistics='freeze'), "did you mean 'frozen'"),
    (segmentor(temperature=0), 'temperature=0 .* must be positive'),
    (segmentor(temperature=NAN), 'temperature=nan .* must be positive'),
    (segmentor(exclude=['nothing']), 'nothing'),
    (windows(mode='slid'), "test_cfg.mode='slid' .* did you mean 'slide'"),
    (windows(mode='slide'), "test_cfg.mode='slide' needs crop_size"),
    (windows(mode='slide', crop_size=(8, 8), stride=(0, 8)),
     r'stride=\(0, 8\) of test_cfg must be two integers'),
    (norm('BNLG'), "norm_cfg.type='BNLG' is unknown; did you mean 'BNLGN'"),
    (norm('SynBN'), "norm_cfg.type='SynBN' is unknown; did you mean 'SyncBN'"),
    (metric('AnomalyMetric', protocols=('poled', )), "did you mean 'pooled'"),
    (metric('AnomalyMetric', scores=('mps', )), "did you mean 'msp'"),
    (metric('AnomalyMetric', scores=()), r'scores=\(\) evaluates nothing'),
    (metric('CalibrationMetric', num_bins=0), 'num_bins=0'),
    (metric('SelectiveMetric', coverages=(80, )), 'write 0.8 for 80 %'),
]


@pytest.mark.parametrize('make, message', CASES, ids=[m for _, m in CASES])
def test_an_option_that_makes_no_sense_is_explained(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize('name, value, message', [
    ('prediction', 'center', "did you mean 'centre'"),
    ('scores', ('entropie', ), "did you mean 'entropy'"),
    ('temperature', -2., 'temperature=-2.0 .* must be positive'),
])
def test_a_setting_changed_later_is_checked_too(images, name, value, message):
    network = build(bayesian_config())
    setattr(network, name, value)
    with pytest.raises(ValueError, match=message):
        network.predict(images)


def test_predicting_in_training_mode_is_refused(images):
    network = build(bayesian_config()).train()
    with pytest.raises(ValueError, match=r'training mode.*model.eval\(\)'):
        network.predict(images)


@pytest.mark.parametrize('options, message', [
    (dict(rule='squrt'), "did you mean 'sqrt'"),
    (dict(weight=0.5), 'weight=0.5 .*write a number >= 1'),
    (dict(weight=NAN), 'weight=nan .*write a number >= 1'),
])
def test_a_prior_that_makes_no_sense_is_explained(options, message):
    with pytest.raises(ValueError, match=message):
        MODELS.build(dict(
            type='RandomPriorCrossEntropyLoss', num_classes=3, **options))


def test_a_config_without_norms_is_refused():
    cfg = bayesian_config(auxiliary=False)
    cfg['backbone'] = dict(type='toy')
    cfg['decode_head'].update(type='FCNHead', in_channels=3, in_index=-1,
                              num_convs=1, concat_input=False, norm_cfg=None)
    for key in ('dilations', 'c1_in_channels', 'c1_channels'):
        cfg['decode_head'].pop(key)

    @MODELS.register_module(name='toy', force=True)
    class Pixels(torch.nn.Module):
        """A backbone without norms."""

        def forward(self, x):
            return [x]

    with pytest.raises(ValueError, match='no normalization layer .*norm_cfg'):
        MODELS.build(cfg)


@pytest.mark.parametrize('value', [NAN, INF])
def test_an_input_that_is_not_finite_is_refused(images, value):
    images[0, 0, 0, 0] = value
    with pytest.raises(ValueError, match='input .* holds NaN or inf'):
        build(bayesian_config()).predict(images)


def test_running_out_of_memory_names_the_options_that_help():
    """With the address space really limited."""
    network = build(bayesian_config(posterior=dict(draws_per_pass=4)))
    images = torch.zeros(1, 3, 2048, 2048)
    pages = int(Path('/proc/self/statm').read_text().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    room = pages * resource.getpagesize() + 300 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (room, limits[1]))
    try:
        with torch.no_grad(), pytest.raises(
                RuntimeError, match='out of memory; .*draws_per_pass'):
            network.predict(images)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def test_a_posterior_that_does_not_exist_is_named():
    cfg = copy.deepcopy(bayesian_config())
    cfg['posterior']['type'] = 'BNLPosteriour'
    with pytest.raises(KeyError, match='BNLPosteriour'):
        MODELS.build(cfg)


@pytest.mark.parametrize('kind, option, meant', [
    ('BNLPosterior', 'sampels', 'samples'),
    ('EnsemblePosterior', 'checkpoint', 'checkpoints'),
    ('DeterministicPosterior', 'view', 'views')])
def test_a_misspelt_option_of_a_posterior_is_named(kind, option, meant):
    cfg = Config(dict(model=toy_config(
        type='BayesianEncoderDecoder',
        posterior={'type': kind, option: 3})))
    with pytest.raises(ValueError, match=f'model.posterior.{option} is not '
                       f"an option of {kind}; did you mean '{meant}'"):
        bayesian_model_cfg(cfg)


def test_a_checkpoint_is_not_a_config(tmp_path):
    with pytest.raises(ValueError, match='members.pth is not a config'):
        config_file(str(tmp_path / 'members.pth'))


def test_init_takes_the_config_first(tmp_path):
    (tmp_path / 'base.pth').write_bytes(b'')
    with pytest.raises(ValueError, match='give the config first'):
        read_base(str(tmp_path / 'base.pth'))


@pytest.mark.parametrize('threshold', [NAN, dict(entropy=NAN)])
def test_a_threshold_of_nan_is_refused(tmp_path, threshold):
    with pytest.raises(ValueError, match='is not a number; write one'):
        WriterSettings(tmp_path, ['entropy'], threshold=threshold)
