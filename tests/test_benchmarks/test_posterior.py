"""The verdict runs, from images to figure, on the smallest of worlds."""
import argparse
import json

import pytest

from benchmarks import posterior

SMALL = dict(
    images=4, test_images=2, base_images=4, base_iterations=2, chains=2,
    samples=6, burn_in=2, max_steps=2, draws=2, members=2,
    effective_pixels=20.)


@pytest.fixture(scope='module')
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp('posterior')
    parser = argparse.ArgumentParser()
    posterior.add_arguments(parser)
    args = parser.parse_args(['--alphas', '0.1', '0.4'])
    vars(args).update(SMALL, work_dir=str(folder),
                      plot=str(folder / 'figure.png'))
    found = posterior.run(args)
    assert (folder / 'figure.png').stat().st_size > 10_000
    return json.loads(json.dumps(found))


def test_every_method_has_a_row_and_hmc_is_at_no_distance_to_itself(result):
    rows = {row['method']: row for row in result['rows']}
    for word in ('base', 'ABNN', 'per pixel', 'Laplace, layer', 'SWAG',
                 'dropout', 'without noise', 'tuned', 'one HMC chain'):
        assert any(word in name for name in rows), word
    hmc = rows['HMC, T = 1']
    # In percent; kept predictions are in half precision.
    assert hmc['TV known T=1'] < 0.05
    assert hmc['agreement known T=1'] > 97
    assert 0 < rows['ABNN, alpha = 0.4']['TV known T=1'] < 100
    assert 0 < rows['one HMC chain, T = 1']['TV unknown T=1'] < 100
    assert hmc['TV known T=0.1'] > 0


def test_whether_goals_are_met_is_said(result):
    assert set(result['verdict']) == {
        'rhat_goal_met', 'abnn_best_tv', 'ensemble_tv', 'tv_goal_met'}
    assert {row['temperature'] for row in result['convergence']} == {
        '1', '0.1'}
