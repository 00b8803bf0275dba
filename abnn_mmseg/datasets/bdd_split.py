"""Build the BDD-Anomaly lists from the labelled images of BDD100K."""
import os.path as osp
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional

import numpy as np

from abnn_mmseg.datasets.bdd_anomaly import (
    HELD_OUT,
    bdd_protocol,
    split_folder,
)
from abnn_mmseg.datasets.pairs import files_by_stem, match_pairs
from abnn_mmseg.datasets.protocol import OOD
from abnn_mmseg.datasets.transforms import LoadAnomalyAnnotations
from abnn_mmseg.utils.files import atomic_write

# Published numbers of images, by held-out classes.
EXPECTED = {
    HELD_OUT: dict(train=6688, val=951, test=361),
    (*HELD_OUT, 'bicycle'): dict(train=6280, val=910, test=810),
}


def has_ood(label: str, tables: np.ndarray) -> bool:
    """Whether a label file has a pixel of a held-out class."""
    results: dict[str, Any] = dict(
        seg_map_path=label,
        label_tables=tables,
        reduce_zero_label=False,
        seg_fields=[])
    LoadAnomalyAnnotations()(results)
    return bool((results['gt_anomaly_map'] == OOD).any())


def split_bdd(images: str,
              labels: str,
              label_suffix: str = '_train_id',
              held_out: Sequence[str] = HELD_OUT,
              progress: Optional[Callable] = None) -> dict[str, list[str]]:
    """Move train and val images with a held-out class to test.

    Args:
        images (str): Folder with ``train`` and ``val``.
        labels (str): The same for label files.
        label_suffix (str): What follows the stem in label names.
        held_out (Sequence[str]): Classes that are OOD.
        progress (Callable, optional): Called with the iterator over all
            images and a total; returns an iterator.

    Returns:
        dict[str, list[str]]: Stems below ``images``, for each split.
    """
    tables = bdd_protocol(held_out).tables()
    found = {}
    for part in ('train', 'val'):
        pairs = _labelled(osp.join(images, part), osp.join(labels, part),
                          label_suffix)
        found.update({f'{part}/{stem}': path for stem, path in pairs.items()})
    splits: dict[str, list[str]] = dict(train=[], val=[], test=[])
    with ThreadPoolExecutor() as pool:
        flags = pool.map(lambda path: has_ood(path, tables), found.values())
        if progress is not None:
            flags = progress(flags, total=len(found))
        for stem, unknown in zip(found, flags):
            part = 'test' if unknown else stem.split('/', 1)[0]
            splits[part].append(stem)
    return splits


def _labelled(images: str, labels: str, suffix: str) -> dict[str, str]:
    for folder in (images, labels):
        if not osp.isdir(folder):
            raise FileNotFoundError(
                f'No folder {osp.abspath(folder)}. Give the folders with '
                '--images and --labels; each holds train/ and val/.')
    by_stem, clashes = files_by_stem(images)
    label_by_stem, more = files_by_stem(labels, suffix)
    problems = clashes + more + match_pairs(by_stem, label_by_stem).problems
    if problems:
        raise ValueError(
            f'{images} and {labels} do not match in {len(problems)} cases:\n  '
            + '\n  '.join(problems[:5]) +
            f'\nLabels must end in {suffix!r} (--label-suffix).')
    return {stem: label_by_stem[stem] for stem in sorted(by_stem)}


def write_lists(splits: dict[str, list[str]],
                data_root: str,
                held_out: Sequence[str] = HELD_OUT) -> str:
    """Write one text file per split, for ``BDDAnomalyDataset``."""
    folder = osp.join(data_root, split_folder(held_out))
    for split, stems in splits.items():
        atomic_write(osp.join(folder, f'{split}.txt'),
                     ''.join(f'{stem}\n' for stem in stems))
    return folder
