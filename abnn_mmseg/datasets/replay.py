"""Random augmentations that can be repeated after an interruption.

mmengine resumes the order of images, but not the state of the random
generators of flips and crops, of which each worker has its own. Here the
sampler adds to every index its place in the stream of all processes, and the
dataset seeds Python, numpy and torch from that place. So a resumed training,
or one with another number of workers or processes, sees the same images.
"""
import random
from collections.abc import Iterator

import numpy as np
import torch
from mmengine.dist import get_rank, get_world_size
from mmseg.registry import DATA_SAMPLERS, DATASETS
from torch.utils.data import Dataset, Sampler


def replayable(loader: dict, seed: int) -> dict:
    """The config of a training loader with repeatable augmentations."""
    return dict(
        loader,
        dataset=dict(
            type='ReplayableDataset', dataset=loader['dataset'], seed=seed),
        sampler=dict(type='ReplayableSampler', sampler=loader['sampler']))


class Place(int):
    """An index into a dataset with its epoch and place in the stream."""

    epoch: int
    place: int

    def __new__(cls, index: int, epoch: int, place: int) -> 'Place':
        self = super().__new__(cls, index)
        self.epoch, self.place = epoch, place
        return self

    def __reduce__(self):
        return Place, (int(self), self.epoch, self.place)


@DATA_SAMPLERS.register_module()
class ReplayableSampler(Sampler):
    """Yields the indices of another sampler as :class:`Place`.

    Args:
        sampler (dict): Config of the other sampler.
        dataset (Dataset): The dataset to sample from.
        seed (int, optional): Seed of the sampler.
    """

    def __init__(self, sampler: dict, dataset, seed=None) -> None:
        self.sampler = DATA_SAMPLERS.build(
            sampler, default_args=dict(dataset=dataset, seed=seed))
        self.epoch = 0
        self.first = 0
        if hasattr(self.sampler, 'skip'):
            # mmengine calls it when it resumes, if it exists.
            self.skip = self._skip

    def __iter__(self) -> Iterator[Place]:
        rank, processes = get_rank(), get_world_size()
        for place, index in enumerate(self.sampler, self.first):
            yield Place(index, self.epoch, place * processes + rank)

    def __len__(self) -> int:
        return len(self.sampler)

    def _skip(self, count: int) -> None:
        self.sampler.skip(count)
        self.first = count

    def set_epoch(self, epoch: int) -> None:
        """Tell the other sampler the epoch, and remember it."""
        self.epoch = epoch
        self.sampler.set_epoch(epoch)


@DATASETS.register_module()
class ReplayableDataset(Dataset):
    """Seeds the generators before each sample of another dataset.

    Args:
        dataset (dict): Config of the other dataset.
        seed (int): The training's seed.
    """

    def __init__(self, dataset: dict, seed: int) -> None:
        self.dataset = DATASETS.build(dataset)
        self.seed = seed

    @property
    def metainfo(self) -> dict:
        """The other dataset's meta information."""
        return self.dataset.metainfo

    def full_init(self) -> None:
        """Load the list of the other dataset."""
        self.dataset.full_init()

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Place) -> dict:
        sequence = np.random.SeedSequence(
            (self.seed, index.epoch, index.place))
        seed = int(sequence.generate_state(1)[0])
        random.seed(seed)
        np.random.seed(seed)
        torch.default_generator.manual_seed(seed)
        return self.dataset[int(index)]
