"""The images that a posterior is fitted to, whole and without chance."""
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

from mmengine.config import Config, ConfigDict
from mmengine.dataset import pseudo_collate
from mmseg.registry import DATASETS
from torch import Tensor

from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.choices import evenly_spaced
from abnn_mmseg.utils.configs import part_of


class Batch(NamedTuple):
    """Images of one size, ready for the network.

    Args:
        inputs (Tensor): ``[B, 3, H, W]``.
        samples (list): Meta information and labels of each.
    """
    inputs: Tensor
    samples: list


def training_set(cfg: Config) -> ConfigDict:
    """The training images as they come in testing: no crop, no flip.

    A posterior is one of fixed data, and every trajectory has to see the
    same energy.
    """
    dataset = part_of(cfg, 'train_dataloader').dataset
    if 'pipeline' not in dataset:
        return dataset
    return ConfigDict(
        dataset, pipeline=part_of(cfg, 'val_dataloader').dataset.pipeline)


def validation_set(cfg: Config) -> ConfigDict:
    """The validation images."""
    return part_of(cfg, 'val_dataloader').dataset


class Images:
    """Some images of a dataset, in batches.

    Args:
        model (BayesianSegmentor): Whose preprocessing they get.
        dataset (dict): Config of the dataset.
        count (int, optional): So many, evenly spread. None: all.
        batch (int): Images of one size in a pass. Defaults to 1.
        keep (bool): Keep them in memory: HMC sees them all at each step.
    """

    def __init__(self, model: BayesianSegmentor, dataset: dict,
                 count: Optional[int] = None, batch: int = 1,
                 keep: bool = False) -> None:
        self.model = model
        self.dataset = DATASETS.build(dataset)
        if not len(self.dataset):
            raise ValueError(
                'there is nothing to fit to: the dataset '
                f'{dataset["type"]} finds no image in '
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
        """The batches without the first so many images."""
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
        if data['inputs'].shape[2:] != items[0]['inputs'].shape[1:]:
            raise ValueError(
                'the data_preprocessor pads images (its test_cfg, or size_'
                'divisor), and padding has no labels to fit to; remove it.')
        return Batch(data['inputs'], data['data_samples'])
