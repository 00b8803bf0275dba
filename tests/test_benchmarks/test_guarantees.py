"""The benchmark of guarantees splits as the product calibrates."""
import argparse
import json

import numpy as np
import pytest
import torch
from sketches import abnn_config, save_two_members

from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.evaluation.risks import (
    conformal_quantile,
    controlled_threshold,
    exceeding_value,
    shares,
)
from benchmarks import guarantees
from benchmarks.guarantee_images import BINS, bins_of, counts
from benchmarks.guarantee_splits import (
    false_alarms,
    label_sets,
    misses,
    size_ratio,
    split_risks,
)


def some_arrays(images=40, seed=0):
    """Histograms of random images, and their values."""
    generator = torch.Generator().manual_seed(seed)
    arrays, values = {}, {'true': [], 'entropy ood': [], 'entropy known': []}
    for kept in values.values():
        for _ in range(images):
            kept.append(torch.rand(301, generator=generator) ** 0.3)
    for name, kept in values.items():
        arrays[name] = np.stack([counts(v) for v in kept])
    arrays['every'] = arrays['true'] + np.stack([
        counts(1 - v) for v in values['true']])
    return arrays, values


def test_thresholds_are_those_of_the_product_up_to_a_bin():
    arrays, values = some_arrays()

    def pooled(parts):
        total = shares(parts[0])
        for part in parts[1:]:
            total = total.merge(shares(part))
        return total

    for name, promise in (('true', label_sets(arrays, 0.1)),
                          ('entropy ood', misses(arrays, 0.1, 'entropy'))):
        exact = controlled_threshold(pooled(values[name]), 40, 0.1)
        [expected] = bins_of(torch.tensor([exact])).tolist()
        assert promise.choose(promise.loss) == expected
    alarms = false_alarms(arrays, 0.1, 'entropy', 0.05)
    exact = conformal_quantile(
        [exceeding_value(v, 0.05) for v in values['entropy known']], 0.1)
    [expected] = bins_of(torch.tensor([exact])).tolist()
    # Flagged is what lies above the bin.
    assert alarms.choose(alarms.loss) == expected + 1 <= BINS


def test_random_splits_keep_the_level_on_average():
    arrays, _ = some_arrays(60)
    for promise in (label_sets(arrays, 0.1), misses(arrays, 0.1, 'entropy'),
                    false_alarms(arrays, 0.1, 'entropy', 0.)):
        risks, _ = split_risks(promise, 200)
        assert risks.mean() <= 0.1 + 2 * risks.std() / 200**0.5


def test_a_method_is_as_large_as_itself():
    arrays, _ = some_arrays()
    found = size_ratio(arrays, arrays, 0.9, 20)
    assert found['low'] == found['ratio'] == found['high'] == 1
    assert 0.9 < found['size'] < 2


def test_it_runs_and_resumes(sketch, base, tmp_path, monkeypatch):
    monkeypatch.setattr(guarantees, 'SETS', dict(
        home=dict(split='test_ood'), away=dict(split='test_ood')))
    cfg = abnn_config(sketch, tmp_path / 'work', base)
    cfg.dump(tmp_path / 'toy.py')
    members = tmp_path / 'members.pth'
    save_two_members(build_segmentor(cfg, base), members)

    def run(*more):
        parser = argparse.ArgumentParser()
        guarantees.add_arguments(parser)
        return guarantees.run(parser.parse_args([
            '--config', str(tmp_path / 'toy.py'), '--base', str(base),
            '--members', str(members), '--work-dir', str(tmp_path / 'kept'),
            '--levels', '0.6', '--splits', '5', *more]))

    with pytest.raises(ValueError, match='no image of home'):
        run('--limit', '0')
    result = run('--plot', str(tmp_path / 'plot.png'))
    assert json.loads(json.dumps(result)) == run('--limit', '0')
    assert result['images'] == dict(home=3, away=3)
    assert {row['method'] for row in result['random_splits']} == {
        'base', 'TTA', 'ABNN'}
    assert {row['risk'] for row in result['other_drive']} == {
        'label-set', 'coverage 0.9', 'miss', 'false-alarm 0',
        'false-alarm 0.1'}
    assert (tmp_path / 'plot.png').stat().st_size > 10_000
