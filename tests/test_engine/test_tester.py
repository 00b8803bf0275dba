"""Several datasets and posteriors in one run."""
import json
import math
from pathlib import Path

import pytest
import torch
from sketches import abnn_config, config

from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.engine.tester import labelled, tables
from abnn_mmseg.engine.tester import test as run_test
from abnn_mmseg.engine.tester import test_all as run_all
from abnn_mmseg.members.files import fingerprint, norm_state, save_members
from abnn_mmseg.utils.checkpoints import read_checkpoint


@pytest.fixture
def cfg(sketch, base, tmp_path):
    return abnn_config(sketch, tmp_path / 'work', base)


@pytest.fixture
def members(cfg, base, tmp_path):
    model = build_segmentor(cfg, base)
    state = norm_state(model)
    state['backbone.bn1.weight'] *= 2
    path = tmp_path / 'members.pth'
    save_members(path, [dict(state=state, meta={})], fingerprint(model))
    return path


def same(one, other):
    return one.keys() == other.keys() and all(
        one[k] == other[k] or math.isnan(one[k]) and math.isnan(other[k])
        for k in one)


def test_one_run_gives_what_separate_runs_give(cfg, base, members):
    """The posteriors share a model, and leave no trace in it."""
    cfg.posteriors = dict(
        loud=dict(alpha=0.9), own=dict(), bare=dict(members=[]),
        base=dict(type='DeterministicPosterior'))
    results = run_all(cfg, [base, members], [], [])
    assert list(results) == ['loud', 'own', 'bare', 'base']
    assert list(results['own']) == ['test_id', 'test_ood']
    assert same(results['own']['test_ood'], run_test(cfg, [base, members]))
    assert same(results['bare']['test_ood'], run_test(cfg, base))
    cfg.model.posterior.alpha = 0.9
    assert same(results['loud']['test_ood'], run_test(cfg, [base, members]))
    cfg.model.posterior = dict(type='DeterministicPosterior')
    cfg.test_dataloader.dataset.split = 'test_id'
    assert same(results['base']['test_id'], run_test(cfg, base))


def test_the_log_says_how_many_networks_predict(cfg, base, members):
    cfg.log_level = 'INFO'
    cfg.model.posterior.samples = 6
    run_test(cfg, [base, members])
    [log] = Path(cfg.work_dir).rglob('*.log')
    text = log.read_text()
    assert 'BNLPosterior of 6 networks' in text
    assert 'parameters train' not in text


def test_an_ensemble_on_the_command_line_is_tested_as_one(cfg, base,
                                                          tmp_path):
    other = read_checkpoint(base)
    for value in other['state_dict'].values():
        if value.is_floating_point():
            value *= 1.1
    torch.save(other, tmp_path / 'other.pth')
    cfg.model.posterior = dict(type='EnsemblePosterior')
    files = [base, tmp_path / 'other.pth']
    results = run_all(cfg, files, ['test_ood'])
    [by_dataset] = results.values()
    assert same(by_dataset['test_ood'], run_test(cfg, files))
    assert not same(by_dataset['test_ood'], run_test(cfg, base))


def test_tables_name_posterior_dataset_and_protocol(cfg, base):
    results = run_all(cfg, base, ['test_id', 'test_ood'], ['base', 'BNL'])
    written = json.loads(Path(cfg.work_dir, 'metrics.json').read_text())
    assert written['BNL']['test_id']['ood/pooled/msp/AUROC'] is None
    by_title = dict(tables(labelled(results)))
    seg, cal, ood, sel = by_title.values()
    assert [(r['posterior'], r['dataset']) for r in seg] == [
        (p, d) for p in ('base', 'BNL') for d in ('test_id', 'test_ood')]
    # In-distribution sets have no anomaly scores: no row of dashes.
    assert {r['dataset'] for r in ood} == {'test_ood'}
    assert {r['protocol, score'].split()[0] for r in ood} == {
        'pooled', 'per_image', 'muad'}
    assert {r['protocol, score'] for r in sel} == {'pooled entropy'}


def test_a_dataset_config_brings_its_own_metrics(cfg, base, sketch,
                                                 tmp_path):
    other = config(sketch, tmp_path)
    other.test_evaluator = dict(type='AnomalyMetric', scores=('msp', ))
    other.dump(tmp_path / 'masks.py')
    names = [str(tmp_path / 'masks.py'), 'test_id']
    results = run_all(cfg, base, names, plot_dir=tmp_path / 'plots')
    assert {k.split('/')[0] for k in results['BNL']['masks']} == {'ood'}
    assert 'seg/mIoU' in results['BNL']['test_id']
    assert (tmp_path / 'plots' / 'BNL' / 'masks' / 'ood_roc.png').is_file()


@pytest.mark.parametrize('datasets, posteriors, message', [
    (['test_od'], None, 'test_od is neither in test_sets.*test_id, test_ood'),
    (None, ['ABN'], 'ABN is not in posteriors.*base, BNL'),
])
def test_unknown_names_are_refused(cfg, base, datasets, posteriors, message):
    with pytest.raises(ValueError, match=message):
        run_all(cfg, base, datasets, posteriors)


def test_a_config_without_our_metrics_gets_those_its_labels_allow(cfg, base):
    cfg.test_evaluator = dict(type='IoUMetric', iou_metrics=['mIoU'])
    cfg.model.scores = ['msp', 'variance']
    metrics = run_test(cfg, base)
    assert {key.split('/')[0] for key in metrics} == {
        'seg', 'cal', 'sel', 'ood'}
    assert 'sel/pooled/msp/AURC' in metrics
    assert 'ood/pooled/msp/AUROC' in metrics
    cfg.pop('test_evaluator')
    assert same(run_test(cfg, base), metrics)


def test_data_without_labels_gets_no_metrics(cfg, base):
    cfg.test_dataloader.dataset.pipeline = [
        step for step in cfg.test_dataloader.dataset.pipeline
        if 'Annotation' not in step['type']]
    cfg.test_evaluator = None
    with pytest.raises(ValueError, match='config has no test_evaluator'):
        run_test(cfg, base)
