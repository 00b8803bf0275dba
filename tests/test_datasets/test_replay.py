import pickle
from itertools import islice

import numpy as np
import pytest
import torch
from mmengine.dataset import InfiniteSampler
from mmengine.registry import DATASETS as ENGINE_DATASETS
from mmseg.registry import DATA_SAMPLERS, DATASETS
from torch.utils.data import DataLoader

from abnn_mmseg.datasets.replay import Place


@ENGINE_DATASETS.register_module(force=True)
class Dice:
    """A dataset whose samples are random."""

    metainfo = dict()

    def __len__(self):
        return 5

    def __getitem__(self, index):
        return dict(index=index, roll=np.random.rand())


def loader(workers=0, first=0):
    dataset = DATASETS.build(dict(
        type='ReplayableDataset', seed=3, dataset=dict(type='Dice')))
    sampler = DATA_SAMPLERS.build(
        dict(type='ReplayableSampler', sampler=dict(type='InfiniteSampler')),
        default_args=dict(dataset=dataset, seed=3))
    if first:
        sampler.skip(first)
    return DataLoader(dataset, 2, sampler=sampler, num_workers=workers)


def rolls(batches, count=6):
    return torch.cat([b['roll'] for b in islice(batches, count)])


def test_the_same_image_is_augmented_anew_each_time():
    assert len(set(rolls(loader()).tolist())) == 12


def test_workers_do_not_change_the_augmentations():
    assert torch.equal(rolls(loader()), rolls(loader(workers=2)))


@pytest.mark.skipif(
    not hasattr(InfiniteSampler, 'skip'),
    reason='this mmengine draws and drops what was seen instead')
def test_skipping_goes_on_with_the_augmentations():
    assert torch.equal(rolls(loader())[4:], rolls(loader(first=4), 4))


def test_a_finite_sampler_offers_no_skip_and_augments_by_epoch():
    sampler = DATA_SAMPLERS.build(
        dict(type='ReplayableSampler', sampler=dict(type='DefaultSampler')),
        default_args=dict(dataset=range(4), seed=0))
    assert not hasattr(sampler, 'skip')
    epochs = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        epochs.append({(p.epoch, p.place) for p in sampler})
    assert epochs == [{(e, k) for k in range(4)} for e in range(2)]


def test_a_place_travels_to_a_worker():
    place = pickle.loads(pickle.dumps(Place(7, epoch=1, place=9)))
    assert (place, place.epoch, place.place) == (7, 1, 9)
