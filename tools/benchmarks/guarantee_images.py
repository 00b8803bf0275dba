"""Predictions of a method as histograms, one file per image.

Any split into calibration and test images is then a matter of sums.
"""
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmseg.registry import DATASETS
from torch import Tensor

from abnn_mmseg.engine.loading import build_posterior
from abnn_mmseg.evaluation.fields import (
    IGNORE,
    IN_DISTRIBUTION,
    OOD,
    anomaly_labels,
    class_labels,
    score_map,
)
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.choices import evenly_spaced
from abnn_mmseg.utils.console import progress
from abnn_mmseg.utils.files import atomic_path

# A bin holds the numbers that agree in their first 9 bits of mantissa: its
# edges are 0.1 % to 0.2 % apart, from 2**-32, with 0 below, to 4.
STEP, FIRST, LAST = 14, 95 << 9, 129 << 9
BINS = LAST - FIRST
SCORES = ('entropy', 'mutual_information')
# Histograms by image set, method and name.
Found = dict[str, dict[str, dict[str, np.ndarray]]]


def bins_of(values: Tensor) -> Tensor:
    """The bin of each number, which must not be negative."""
    bits = values.float().contiguous().view(torch.int32).long() >> STEP
    return (bits - FIRST).clamp(0, BINS - 1)


def counts(values: Tensor) -> np.ndarray:
    return torch.bincount(
        bins_of(values).flatten(), minlength=BINS).numpy().astype(np.int32)


def describe(sample) -> dict[str, np.ndarray]:
    """Histograms of one predicted image.

    Of pixels that have a class: probability of the true class, of every
    class, and of the first one. Of each score: known and unknown pixels.
    """
    fields = sample.to_dict()
    probability = sample.seg_logits.data.softmax(0).flatten(1)
    labels = class_labels(fields)
    has_class = labels != IGNORE
    probability, labels = probability[:, has_class], labels[has_class]
    arrays = dict(
        true=counts(probability.gather(0, labels[None])),
        every=counts(probability),
        top=counts(probability.amax(0)))
    for score in SCORES:
        values = score_map(fields, score)
        kinds = anomaly_labels(fields, values)
        arrays[f'{score} known'] = counts(values[kinds == IN_DISTRIBUTION])
        arrays[f'{score} ood'] = counts(values[kinds == OOD])
    return arrays


class Images:
    """Images of several datasets, and their files of each method.

    Args:
        cfg (Config): Of the model; its datasets are the image sets.
        sets (dict): Overrides of the test dataset, by name.
        folder (Path): Where files are kept.
        images (int, optional): So many of each set, evenly spread.
    """

    def __init__(self, cfg: Config, sets: dict[str, dict], folder: Path,
                 images: Optional[int]) -> None:
        self.folder = folder
        self.datasets = {
            name: DATASETS.build(
                dict(cfg.test_dataloader.dataset, **changes))
            for name, changes in sets.items()
        }
        self.chosen = {
            name: evenly_spaced(len(dataset), images)
            for name, dataset in self.datasets.items()
        }

    def _jobs(self) -> list[tuple[str, int]]:
        """Sets in turn and at random, so that a part of the work is a sample
        of each."""
        jobs = []
        for name, chosen in self.chosen.items():
            order = np.random.default_rng(0).permutation(chosen)
            jobs += [((place + 0.5) / len(order), name, int(number))
                     for place, number in enumerate(order)]
        return [(name, number) for _, name, number in sorted(jobs)]

    def _path(self, method: Path, name: str, number: int) -> Path:
        info = self.datasets[name].get_data_info(number)
        return method / name / f'{Path(info["img_path"]).stem}.npz'

    @torch.no_grad()
    def collect(self, model: BayesianSegmentor, methods: dict[str, dict],
                members: Sequence[str], limit: Optional[int]) -> None:
        """Predict what has no file yet, of at most ``limit`` images.

        Args:
            model (BayesianSegmentor): Of the base.
            methods (dict): Configs of posteriors, by name.
            members (Sequence[str]): Member files of those that have some.
            limit (int, optional): Defaults to all.
        """
        posteriors = {
            self.method_folder(name, cfg, members): build_posterior(
                model, cfg, members) for name, cfg in methods.items()
        }
        left = [(where, i, missing) for where, i in self._jobs()
                if (missing := [folder for folder in posteriors if not
                                self._path(folder, where, i).exists()])]
        left = left[:limit]
        for where, i, missing in progress(left, 'Images', len(left)):
            batch = pseudo_collate([self.datasets[where][i]])
            data = model.data_preprocessor(batch, False)
            samples = data['data_samples']
            for folder in missing:
                answer = model.answer(
                    data['inputs'], [s.metainfo for s in samples],
                    posteriors[folder], ('posterior_mean', ))
                model.conclude(answer, samples, 'posterior_mean', 1.)
                with atomic_path(self._path(folder, where, i)) as temporary:
                    np.savez_compressed(temporary, **describe(samples[0]))

    def method_folder(self, name: str, cfg: dict,
                      members: Sequence[str]) -> Path:
        """Another posterior, or other members, have another folder."""
        sha = hashlib.sha256(json.dumps(dict(cfg), sort_keys=True).encode())
        if name not in ('base', 'TTA'):
            for member in members:
                sha.update(Path(member).read_bytes())
        return self.folder / f'{name}-{sha.hexdigest()[:8]}'

    def read(self, folders: dict[str, Path]) -> Found:
        """Histograms ``[images, BINS]`` by set and method, of the images that
        all methods have predicted."""
        found: Found = {}
        for name, chosen in self.chosen.items():
            done = [i for i in chosen if all(
                self._path(folder, name, i).exists()
                for folder in folders.values())]
            if not done:
                raise ValueError(f'no image of {name} is predicted by all of '
                                 f'{", ".join(folders)}; raise --limit.')
            found[name] = {
                method: _stacked([self._path(folder, name, i) for i in done])
                for method, folder in folders.items()}
        return found


def _stacked(paths: list[Path]) -> dict[str, np.ndarray]:
    files = [dict(np.load(path)) for path in paths]
    return {key: np.stack([file[key] for file in files]) for key in files[0]}
