"""Every benchmark runs, on the smallest of inputs, and has its keys."""
import argparse
import json

import cv2
import numpy as np
import pytest
import torch
from sketches import abnn_config

from abnn_mmseg.uncertainty import SCORES
from benchmarks import (
    accuracy,
    export,
    finetune,
    inference,
    large,
    memory,
    metrics,
    scores,
    soak,
    threads,
)


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """Without processes of their own, which import mmseg for seconds each."""
    for module in (finetune, inference, large, metrics, soak, threads):
        monkeypatch.setattr(module, 'in_process', lambda f, *args: f(*args))


@pytest.fixture
def toy(sketch, base, tmp_path):
    path = tmp_path / 'toy.py'
    abnn_config(sketch, tmp_path / 'work', base).dump(path)
    return str(path)


def run(module, *arguments) -> dict:
    parser = argparse.ArgumentParser()
    parser.add_argument('--json')
    module.add_arguments(parser)
    result = module.run(parser.parse_args([str(a) for a in arguments]))
    return json.loads(json.dumps(result))


def test_inference_measures_every_way_and_plots(toy, base, tmp_path,
                                                monkeypatch):
    monkeypatch.setattr(inference, 'MANY', 16)
    monkeypatch.setattr(inference, 'CURVE', (2, 4))
    result = run(
        inference, '--config', toy, '--checkpoint', base, '--size', 32, 48,
        '--repeats', 1, '--error-size', 32, 48, '--reference', 8, '--plot',
        tmp_path / 'cost.png')
    for way in ('all', 'decode_head', 'late', 'element', 'student', 'copies'):
        assert result[f'ratio_{way}'] > 0
    assert result['peak_mb_k8'] > 100 and result['bank_mb_m3_l8'] < 1
    assert [row['draws'] for row in result['costs']] == [2, 4]
    assert 0 < result['bfloat16_error']['entropy'] < 1
    assert (tmp_path / 'cost.png').stat().st_size > 10_000


def test_parts_that_are_not_measured_again_are_kept(toy, base, tmp_path,
                                                    monkeypatch):
    from benchmarks import map_error
    monkeypatch.setattr(map_error, 'DRAWS', (2, ))
    known = tmp_path / 'known.json'
    known.write_text('{"ratio_all": 7.5, "errors": [], "draws": 8}')
    result = run(
        inference, '--config', toy, '--checkpoint', base, '--error-size', 32,
        32, '--reference', 2, '--parts', 'errors', '--draws', 2, '--json',
        known)
    assert result['ratio_all'] == 7.5
    assert len(result['errors']) == 2 and result['draws'] == 2


def test_more_draws_have_smaller_errors(toy, base, monkeypatch):
    from benchmarks import map_error
    monkeypatch.setattr(map_error, 'DRAWS', (2, 64))
    parser = argparse.ArgumentParser()
    inference.add_arguments(parser)
    args = parser.parse_args([
        '--config', toy, '--checkpoint', str(base), '--error-size', '32',
        '48', '--reference', '128'])
    rows = map_error.map_errors(args)['errors']
    for antithetic in (True, False):
        few, many = (r for r in rows if r['antithetic'] == antithetic)
        assert many['mutual_information'] < few['mutual_information'] / 2


def test_the_optimizer_of_the_norms_is_small(toy):
    result = run(finetune, '--config', toy, '--size', 32, 32, '--repeats', 1)
    assert result['optimizer_state_ratio'] < 0.1
    assert result['step_ratio'] > 0 and result['memory_ratio'] > 0


def test_metrics_agree_with_the_obvious_way():
    result = run(
        metrics, '--pixels', 1e5, '--height', 64, '--width', 128,
        '--classes', 5, '--ood-share', 0.1)
    # Values are in percent.
    assert result['largest_difference'] < 1e-2
    assert result['speedup'] > 0 and not result['naive_extrapolated']


def test_accuracy_is_within_the_tolerance():
    result = run(accuracy, '--pixels', 20000)
    assert result['largest_error'] < 1e-4


def test_export_is_compared_with_inference(toy, base):
    result = run(
        export, '--config', toy, '--checkpoint', base, '--size', 32, 64,
        '--draws', 2, '--images', 2, '--repeats', 1)
    assert result['overhead'] > -1 and len(result['overheads']) == 1


def test_large_images_have_a_row_each(toy, base):
    result = run(
        large, '--config', toy, '--checkpoint', base, '--sides', 96, 128,
        '--draws', 2, 4, '--tile', 64, '--crop', 32, '--stride', 24)
    assert [(r['side'], r['draws']) for r in result['rows']] == [
        (96, 2), (96, 4), (128, 2)]


def test_all_scores_are_drawn_side_by_side(toy, base, tmp_path):
    picture = tmp_path / 'scores.png'
    result = run(
        scores, '--config', toy, '--checkpoint', base, '--picture', picture,
        '--images', 1, '--cfg-options',
        'test_dataloader.dataset.split=test_ood')
    assert set(result) == set(SCORES) and picture.stat().st_size > 1000
    drawn = cv2.imread(str(picture))[30:]
    # Also those that are negative have light and dark places.
    assert all(panel.std() > 1 for panel in np.array_split(
        drawn, 3 + len(SCORES), 1))


def test_soak_counts_all_steps(toy):
    result = run(soak, '--config', toy, '--images', 10, '--members', 1,
                 '--iterations', 4)
    assert result['soak_export']['steps'] == 10
    assert result['soak_training']['steps'] == 4


def test_threads_get_the_maps_of_one(toy):
    result = run(threads, '--config', toy, '--threads', 2, '--predictions',
                 20, '--size', 32, 48)
    assert result['wrong'] == 0
    assert result['memory']['steps'] == 2 * 20


def test_a_race_counts_maps_that_differ(toy, tmp_path, monkeypatch):
    answers = iter(range(1000))
    monkeypatch.setattr(
        threads, 'entropy', lambda *_: torch.tensor(next(answers)))
    watch = soak.Watch(4)
    images = [torch.zeros(1)] * 2
    assert threads.race(None, None, images, 2, watch) == 4


def test_a_process_of_its_own_has_its_own_peak():
    ballast = bytearray(300 * 2**20)
    own = memory.in_process(memory.peak_resident_mb)
    assert 0 < own < memory.peak_resident_mb()
    assert memory.free_mb('cpu') > 0 and len(ballast)
