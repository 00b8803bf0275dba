"""Any number of processes gives the same numbers as one."""
import json
import math
import os
import socket

import pytest
import torch
import torch.multiprocessing as mp
from mmengine.dataset import DefaultSampler
from mmengine.evaluator import Evaluator
from random_samples import build_sample

from abnn_mmseg.evaluation import (
    AnomalyMetric,
    CalibrationMetric,
    SelectiveMetric,
)


def all_metrics(collect_dir=None):
    settings = dict(max_bins=128, collect_dir=collect_dir)
    return Evaluator([
        AnomalyMetric(('entropy', 'energy'), **settings),
        CalibrationMetric(**settings),
        SelectiveMetric(('msp', 'energy'), **settings)
    ])


def run(images, collect_dir=None):
    evaluator = all_metrics(collect_dir)
    for index in DefaultSampler(range(images), shuffle=False):
        evaluator.process([build_sample(index, size=(16, 16 + index))])
    return evaluator.evaluate(images)


def work(rank, world_size, port, folder, images):
    torch.set_num_threads(1)
    os.chdir(folder)
    torch.distributed.init_process_group(
        'gloo',
        init_method=f'tcp://127.0.0.1:{port}',
        rank=rank,
        world_size=world_size)
    metrics = [run(count) for count in images]
    metrics.append(run(images[0], collect_dir='collected'))
    with open(f'{rank}.json', 'w') as file:
        json.dump(metrics, file)
    # Who ends first would abort the other, which still listens.
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def free_port():
    with socket.socket() as server:
        server.bind(('127.0.0.1', 0))
        return server.getsockname()[1]


@pytest.mark.parametrize('world_size', [2])
def test_two_processes_give_exactly_the_numbers_of_one(tmp_path, world_size):
    images = [5, 4, 1]  # odd, even, fewer than processes
    mp.spawn(
        work, (world_size, free_port(), str(tmp_path), images), world_size)
    expected = [run(count) for count in images] + [run(images[0])]
    for rank in range(world_size):
        metrics = json.loads((tmp_path / f'{rank}.json').read_text())
        assert metrics == json.loads(json.dumps(expected))


def test_batches_give_the_numbers_of_single_images():
    evaluator = all_metrics()
    evaluator.process([build_sample(i, size=(16, 16 + i)) for i in range(3)])
    assert evaluator.evaluate(3) == run(3)


def test_no_image_at_all_gives_nan():
    assert all(math.isnan(v) for v in all_metrics().evaluate(0).values())
