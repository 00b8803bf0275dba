"""Labelled images of a dataset, preprocessed and in batches."""
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

from mmengine.dataset import pseudo_collate
from mmseg.registry import DATASETS
from torch import Tensor

from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.choices import evenly_spaced


class Batch(NamedTuple):
    """Images of one size, ready for the network.

    Args:
        inputs (Tensor): ``[B, 3, H, W]``.
        samples (list): Meta information and labels of each.
    """
    inputs: Tensor
    samples: list

    @property
    def metas(self) -> list[dict]:
        """Meta information of each image."""
        return [sample.metainfo for sample in self.samples]


class Images:
    """Some images of a dataset, in batches.

    Args:
        model (BayesianSegmentor): The model that preprocesses the images.
        dataset (dict): Config of the dataset.
        count (int, optional): How many images to use, evenly spread.
            Defaults to all.
        batch (int): Images of one size in a pass. Defaults to 1.
        keep (bool): Keep them in memory, for HMC, which needs all of them at
            each step. Defaults to False.
    """

    def __init__(self, model: BayesianSegmentor, dataset: dict,
                 count: Optional[int] = None, batch: int = 1,
                 keep: bool = False) -> None:
        self.model = model
        self.dataset = DATASETS.build(dataset)
        if not len(self.dataset):
            raise ValueError(
                f'the dataset {dataset["type"]} finds no image in '
                f'data_root={dataset.get("data_root")!r}; check its path and '
                'split.')
        self.numbers = evenly_spaced(len(self.dataset), count)
        self.batch = batch
        self.kept: Optional[list[Batch]] = (
            list(self._load(self.numbers)) if keep else None)

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Batch]:
        yield from self.after(0)

    def after(self, first: int) -> Iterator[Batch]:
        """The batches, starting at an image; 0 is the first."""
        if self.kept is not None and first == 0:
            yield from self.kept
        else:
            yield from self._load(self.numbers[first:])

    def _load(self, numbers: Sequence[int]) -> Iterator[Batch]:
        items: list[dict] = []
        for number in numbers:
            item = self.dataset[number]
            full = len(items) == self.batch
            if items and (full or item['inputs'].shape !=
                          items[0]['inputs'].shape):
                yield self._batch(items)
                items = []
            items.append(item)
        if items:
            yield self._batch(items)

    def _batch(self, items: list[dict]) -> Batch:
        data = self.model.data_preprocessor(pseudo_collate(items), False)
        return Batch(data['inputs'], data['data_samples'])
