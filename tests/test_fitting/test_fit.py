"""The three fits on a tiny MUAD-sketch: files, resuming, bad input."""
import copy
import json
import multiprocessing
import queue
import time
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmseg.registry import MODELS
from sketches import abnn_config, config

from abnn_mmseg.cli.main import command_parser, load_command
from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.fitting import chains as fit_chains
from abnn_mmseg.fitting import laplace, norm_chain
from abnn_mmseg.fitting.chains import run_chains
from abnn_mmseg.fitting.fitted import fitted_config
from abnn_mmseg.fitting.laplace import fit_laplace
from abnn_mmseg.fitting.norm_chain import HMCSettings
from abnn_mmseg.fitting.sampling import (
    convergence,
    fit_hmc,
    spread_samples,
)
from abnn_mmseg.fitting.swag import Moments, fit_swag
from abnn_mmseg.members.files import read_members
from abnn_mmseg.utils.checkpoints import read_checkpoint, read_state_dict

QUICK = dict(samples=4, burn_in=2, max_steps=2, images=4, batch=4,
             effective_pixels=20., check_images=1, check_pixels=30)


@pytest.fixture
def cfg(sketch, base, tmp_path):
    return abnn_config(sketch, tmp_path / 'work', base)


def predict(cfg, base, path, kind):
    cfg = fitted_config(cfg, kind)
    model = build_segmentor(cfg, [base, path])
    with torch.no_grad():
        return model, model.predict(torch.randn(1, 3, 32, 64))[0]


@pytest.mark.parametrize('structure', ['diagonal', 'layer', 'low_rank'])
def test_laplace_writes_a_small_file_that_predicts(
        structure, cfg, base, tmp_path):
    path = tmp_path / 'laplace.pth'
    report = fit_laplace(cfg, base, path, tmp_path, structure, rank=2,
                         draws=2, val_images=2)
    assert report['nll'] <= min(t['nll'] for t in report['validation'])
    assert 1 <= report['effective_pixels'] <= 64 * 32
    assert report == json.loads(path.with_suffix('.json').read_text())
    model, sample = predict(cfg, base, path, 'LaplacePosterior')
    assert sample.uncertainty.mutual_information.max() > 0
    assert path.stat().st_size < base.stat().st_size
    [member] = read_members(path)
    assert member['meta']['kind'] == 'laplace'


def test_laplace_goes_on_after_a_kill(cfg, base, tmp_path, monkeypatch):
    whole, part = tmp_path / 'whole.pth', tmp_path / 'part.pth'
    options = dict(draws=2, val_images=1, pixels=20.)
    fit_laplace(cfg, base, whole, tmp_path / 'a', **options)
    monkeypatch.setattr(laplace, 'SAVE_EVERY', -1.)
    rows, seen = laplace.sampled_rows, []

    def killed(*args):
        if len(seen) == 3:
            raise KeyboardInterrupt
        seen.append(0)
        return rows(*args)

    monkeypatch.setattr(laplace, 'sampled_rows', killed)
    with pytest.raises(KeyboardInterrupt):
        fit_laplace(cfg, base, part, tmp_path / 'b', **options)
    seen.clear()
    fit_laplace(cfg, base, part, tmp_path / 'b', **options)
    assert len(seen) == 3  # of six images
    one, other = (read_members(p)[0]['state'] for p in (whole, part))
    for name, value in one.items():
        torch.testing.assert_close(other[name], value)


def test_moments_are_those_of_the_snapshots():
    torch.manual_seed(0)
    snapshots = torch.randn(9, 3, dtype=torch.float64)
    moments = Moments(4)
    for theta in snapshots:
        moments.add(theta)
    mean, diagonal, rows = moments.gaussian()
    torch.testing.assert_close(mean, snapshots.mean(0))
    torch.testing.assert_close(diagonal, snapshots.var(0, False) / 2)
    means = torch.stack([snapshots[:i].mean(0) for i in range(1, 10)])
    expected = (snapshots - means)[-4:] / (2 * 3)**0.5
    torch.testing.assert_close(rows, expected.float())


def test_swag_goes_on_after_a_kill_and_predicts(cfg, base, tmp_path):
    options = dict(iterations=8, every=2, rank=3)
    whole, part = tmp_path / 'whole.pth', tmp_path / 'part.pth'
    report = fit_swag(cfg, base, whole, tmp_path / 'a', **options)
    assert report['snapshots'] == 3 and report['rank'] == 3
    assert report['mean_std'] > 0
    # The run ends with a checkpoint; without the file it only writes that.
    fit_swag(cfg, base, part, tmp_path / 'a', **options)
    one, other = (read_members(p)[0]['state'] for p in (whole, part))
    assert all(torch.equal(other[name], value)
               for name, value in one.items())
    _, sample = predict(cfg, base, whole, 'SWAGPosterior')
    assert sample.uncertainty.mutual_information.max() > 0


def other_base(base, folder):
    state = read_state_dict(base)
    state['backbone.bn1.bias'] = state['backbone.bn1.bias'] + 0.1
    torch.save(state, folder / 'other.pth')
    return folder / 'other.pth'


def test_a_fit_goes_on_from_its_base_and_settings_only(cfg, base, tmp_path):
    other = other_base(base, tmp_path)
    folder = tmp_path / 'swag'
    options = dict(iterations=8, every=2, rank=3)
    # The member file may lie where the training has its checkpoints.
    out = folder / 'swag.pth'
    fit_swag(cfg, base, out, folder, **options)
    for path, changes in ((base, dict(lr=0.5)), (base, dict(scope='backbone')),
                          (base, dict(rank=2)), (other, {})):
        with pytest.raises(ValueError, match='was trained with'):
            fit_swag(cfg, path, out, folder, **{**options, **changes})
    fit_swag(cfg, base, out, folder, **options)
    folder, settings = tmp_path / 'hmc', HMCSettings(**QUICK)
    fit_hmc(cfg, str(base), tmp_path / 'hmc.pth', folder, settings, 2)
    for path, scope in ((other, 'all'), (base, 'backbone')):
        with pytest.raises(ValueError, match='is a chain with '):
            fit_hmc(cfg, str(path), tmp_path / 'hmc.pth', folder, settings,
                    2, scope=scope)


def test_laplace_forgets_the_curvature_of_another_base(
        cfg, base, tmp_path, monkeypatch):
    options = dict(draws=1, val_images=1, pixels=20.)
    monkeypatch.setattr(laplace, 'SAVE_EVERY', -1.)
    monkeypatch.setattr(Path, 'unlink', lambda *args, **kwargs: None)
    fit_laplace(cfg, base, tmp_path / 'one.pth', tmp_path / 'a', **options)
    monkeypatch.undo()
    other = other_base(base, tmp_path)
    for folder in 'ab':
        fit_laplace(cfg, other, tmp_path / f'{folder}.pth',
                    tmp_path / folder, **options)
    one, two = (read_members(tmp_path / f'{name}.pth')[0]['state']
                for name in 'ab')
    assert all(torch.equal(two[name], value) for name, value in one.items())


def test_hmc_samples_are_members_and_are_judged(cfg, base, tmp_path):
    path = tmp_path / 'hmc.pth'
    report = fit_hmc(cfg, base, path, tmp_path / 'chains',
                     HMCSettings(**QUICK), chains=2, keep=3)
    members = read_members(path)
    assert [m['meta']['chain'] for m in members] == [0, 1, 0]
    assert report['parameters']['count'] > 100
    assert report['pixels']['count'] == 30
    # Four samples converge nowhere, and that is said.
    assert any('R-hat' in w for w in report['warnings'])
    model, sample = predict(cfg, base, path, 'SampledPosterior')
    assert len(model.posterior) == 3
    assert sample.uncertainty.mutual_information.max() > 0


def test_killed_chains_go_on_with_the_same_samples(
        cfg, base, tmp_path, monkeypatch):
    cfg = fitted_config(cfg, 'SampledPosterior')
    settings = HMCSettings(**QUICK)
    whole = run_chains(cfg, str(base), settings, 1, tmp_path / 'a')
    monkeypatch.setattr(norm_chain, 'SAVE_EVERY', -1.)
    advance, count = norm_chain.Chain.advance, []

    def killed(self):
        if len(count) == 4:
            raise KeyboardInterrupt
        count.append(0)
        return advance(self)

    monkeypatch.setattr(norm_chain.Chain, 'advance', killed)
    with pytest.raises(KeyboardInterrupt):
        run_chains(cfg, str(base), settings, 1, tmp_path / 'b')
    count.clear()
    monkeypatch.setattr(norm_chain.Chain, 'advance', advance)
    part = run_chains(cfg, str(base), settings, 1, tmp_path / 'b')
    for key in ('samples', 'seen'):
        assert torch.equal(whole[0][key], part[0][key])
    with pytest.raises(ValueError, match='is a chain with burn_in=2'):
        run_chains(cfg, str(base), HMCSettings(**{**QUICK, 'burn_in': 3}), 1,
                   tmp_path / 'b')


def test_chains_in_processes_are_the_same(cfg, base, tmp_path):
    cfg = fitted_config(cfg, 'SampledPosterior')
    settings = HMCSettings(**QUICK)
    one = run_chains(cfg, str(base), settings, 2, tmp_path / 'a')
    two = run_chains(cfg, str(base), settings, 2, tmp_path / 'b', jobs=2)
    for a, b in zip(one, two):
        torch.testing.assert_close(a['samples'], b['samples'])
    assert not torch.equal(one[0]['samples'], one[1]['samples'])


def test_a_chain_ends_with_the_process_that_started_it(monkeypatch):
    class Endless:
        def __init__(self, *args):
            pass

        def run(self, say):
            for count in range(9):
                say(count)
                parent.kill()
                parent.join()

    context = multiprocessing.get_context('fork')
    parent = context.Process(target=time.sleep, args=(60, ))
    parent.start()
    monkeypatch.setattr(fit_chains, 'NormChain', Endless)
    monkeypatch.setattr(multiprocessing, 'parent_process', lambda: parent)
    news = queue.Queue()
    with pytest.raises(SystemExit):
        fit_chains._work(news, {}, 'base', None, 3, None)
    assert list(news.queue) == [(3, 0)]


def test_a_chain_that_diverges_is_given_up(cfg, base, tmp_path, monkeypatch):
    monkeypatch.setattr(norm_chain, 'MOST_DIVERGENT', 2)
    monkeypatch.setattr(norm_chain.Chain, 'advance', diverging)
    with pytest.raises(ValueError, match='chain 0 diverges: the last 2'):
        fit_hmc(cfg, base, tmp_path / 'hmc.pth', tmp_path,
                HMCSettings(**QUICK), chains=2)


def diverging(self):
    self.trace.append(dict(divergent=1., step=0.1))
    return self.start


def test_bad_chains_get_warnings():
    trace = [dict(acceptance=0.3, energy_error=2., step=0.1, steps=3,
                  energy=1., divergent=0.1)] * 12
    torch.manual_seed(0)
    contents = [dict(
        chain=dict(trace=trace), samples=torch.randn(10, 3) + k,
        seen=torch.rand(10, 4, 2)) for k in range(2)]
    found = convergence(contents, HMCSettings(samples=10, burn_in=2))
    text = ' '.join(found['warnings'])
    for word in ('parameters have a split R-hat', 'effective sample size',
                 '30% of the trajectories were accepted', 'diverged'):
        assert word in text


def test_kept_samples_are_spread():
    kept = spread_samples(3, 100, 12)
    assert len(set(kept)) == 12
    assert {chain for chain, _ in kept[:3]} == {0, 1, 2}
    first, second = kept[0][1], kept[3][1]
    assert abs(first - second) >= 40
    assert spread_samples(2, 4, 100) == sorted(
        spread_samples(2, 4, 100), key=spread_samples(2, 4, 100).index)
    assert len(spread_samples(2, 4, 100)) == 8


def run_cli(*words):
    args = command_parser('fit').parse_args([str(w) for w in words])
    load_command('fit').run(args)


def test_the_command_lists_its_members(cfg, base, tmp_path, capsys):
    path = tmp_path / 'cfg.py'
    cfg.dump(path)
    out = tmp_path / 'fits' / 'hmc.pth'
    words = ('hmc', path, base, '--chains', 2, '--samples', 4, '--burn-in', 1,
             '--max-steps', 1, '--images', 2, '--effective-pixels', 20,
             '--work-dir', tmp_path / 'fits', '--keep', 2)
    run_cli(*words)
    assert 'is for SampledPosterior' in capsys.readouterr().out
    members = command_parser('members').parse_args(['list', str(out)])
    load_command('members').run(members)
    assert capsys.readouterr().out.count('hmc') >= 2
    with pytest.raises(FileExistsError, match='--overwrite'):
        run_cli(*words)


@MODELS.register_module()
class Bare(torch.nn.Conv2d):
    """A backbone without norms."""

    def forward(self, x):
        return [super().forward(x)]


def test_a_base_without_norms_is_refused(sketch, base, tmp_path):
    cfg = config(sketch, tmp_path)
    cfg.model.backbone = dict(
        type='Bare', in_channels=3, out_channels=4,
        kernel_size=1)
    cfg.model.decode_head = dict(
        type='FCNHead', in_channels=4, channels=8, num_classes=15,
        num_convs=1, concat_input=False)
    for fit in (fit_laplace, fit_swag):
        with pytest.raises(ValueError, match='no normalization layer'):
            fit(cfg, base, tmp_path / 'x.pth', tmp_path)


def test_an_empty_set_is_refused(cfg, base, tmp_path):
    (tmp_path / 'none' / 'train' / 'leftImg8bit').mkdir(parents=True)
    (tmp_path / 'none' / 'train' / 'leftLabel').mkdir(parents=True)
    cfg.train_dataloader.dataset.data_root = str(tmp_path / 'none')
    for fit in (fit_laplace, fit_swag):
        with pytest.raises((ValueError, FileNotFoundError)) as error:
            fit(copy.deepcopy(cfg), base, tmp_path / 'x.pth', tmp_path)
        assert 'none' in str(error.value)


@pytest.mark.parametrize('options, message', [
    (dict(prior_std=0.), 'prior_std=0'),
    (dict(samples=2), '2 samples'),
    (dict(prior_mean='one'), "prior_mean='one'"),
    (dict(acceptance=1.5), 'acceptance=1.5')])
def test_impossible_settings_of_hmc_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        HMCSettings(**options)


def test_too_few_of_anything_is_refused(cfg, base, tmp_path):
    with pytest.raises(ValueError, match='at least 2'):
        fit_hmc(cfg, base, tmp_path / 'x.pth', tmp_path,
                HMCSettings(**QUICK), chains=1)
    with pytest.raises(ValueError, match='too few for a covariance'):
        fit_swag(cfg, base, tmp_path / 'x.pth', tmp_path, iterations=4)
    with pytest.raises(ValueError, match='structure'):
        fit_laplace(cfg, base, tmp_path / 'x.pth', tmp_path, 'digonal')
    assert isinstance(cfg, Config) and read_checkpoint(base)
