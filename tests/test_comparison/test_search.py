import json

import pytest
from mmengine.config import Config
from sketches import abnn_config

from abnn_mmseg.comparison import search as module
from abnn_mmseg.comparison.search import (
    Search,
    combinations,
    ranking,
)
from abnn_mmseg.utils.files import read_lines


@pytest.fixture
def config_file(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path / 'search', base)
    cfg.val_dataloader.dataset.split = 'test_ood'
    cfg.search = dict(
        members=1, images=1,
        train=[{'train_cfg.max_iters': [0]},
               {'train_cfg.max_iters': [1],
                'optim_wrapper.optimizer.lr': [0.01]}],
        test=[{'model.posterior.alpha': [0.1]},
              {'model.posterior.scope': ['late']}])
    cfg.dump(tmp_path / 'search.py')
    return str(tmp_path / 'search.py')


def test_every_trial_is_logged_once_and_trainings_are_shared(
        config_file, tmp_path, monkeypatch):
    trained = []

    def counting(cfg, members):
        trained.append(cfg.optim_wrapper.optimizer.lr)
        return original(cfg, members)

    original = module.train
    monkeypatch.setattr(module, 'train', counting)
    log = tmp_path / 'trials.jsonl'
    trials = Search(config_file, str(log)).run()
    # The base; two trainings, two tests, two predictions.
    assert len(trials) == 1 + 2 * 2 * 2
    assert trained == [0.01]
    assert len(read_lines([log])) == len(trials)
    assert len({trial['key'] for trial in trials}) == len(trials)
    check_ranking(trials)
    # Half a line of a killed run is no trial, and nothing is tried again.
    with open(log, 'a') as file:
        file.write('{"train": {"train_c')
    monkeypatch.setattr(module, 'train', None)
    again = Search(config_file, str(log)).run()
    assert [t['key'] for t in again] == [t['key'] for t in trials]
    assert len(read_lines([log])) == len(trials)


def check_ranking(trials):
    lines = ranking(trials, 'FPR95')
    # The base has no maps of disagreement.
    assert len(lines) == 7 * len(trials) - 2
    kept = [line['FPR95'] for line in lines if line['keeps'] == 'yes']
    assert kept == sorted(kept) and kept
    assert [line['keeps'] for line in lines] == sorted(
        (line['keeps'] for line in lines), reverse=True)
    assert {line['lr'] for line in lines} == {'-', '0.01'}
    assert list(lines[0])[:2] == ['max_iters', 'alpha']


def test_combinations_of_each_grid():
    assert list(combinations([dict(a=[1, 2], b=['x']), dict(a=[3])])) == [
        dict(a=1, b='x'), dict(a=2, b='x'), dict(a=3)]
    assert list(combinations([{}])) == [{}]
    with pytest.raises(ValueError, match=r'a=1 of search.*\[1\]'):
        list(combinations([dict(a=1)]))


def test_the_decay_ends_with_the_training(config_file, tmp_path):
    search = Search(config_file, str(tmp_path / 'log'), {
        'param_scheduler': [dict(type='PolyLR', end=800, by_epoch=False)]})
    cfg = search._configured({'train_cfg.max_iters': 7})
    assert cfg.param_scheduler[0].end == 7
    assert json.dumps(search.search.train[0])


def test_a_config_without_a_search_says_what_to_write(config_file, tmp_path):
    with pytest.raises(ValueError, match='has no search.train; write'):
        Search(config_file, str(tmp_path / 'log'),
               {'search': dict(_delete_=True, images=2)})


def test_only_what_ends_with_the_training_ends_with_it(config_file, tmp_path):
    cfg = Config.fromfile(config_file)
    whole = cfg.train_cfg.max_iters
    cfg.param_scheduler = [
        dict(type='LinearLR', start_factor=0.1, by_epoch=False, end=whole - 1),
        dict(type='PolyLR', by_epoch=False, end=whole)]
    cfg.dump(config_file)
    search = Search(config_file, str(tmp_path / 'trials.jsonl'))
    changed = search._configured({'train_cfg.max_iters': 90})
    assert [s.end for s in changed.param_scheduler] == [whole - 1, 90]
