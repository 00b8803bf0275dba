"""Read all files of a config's datasets; count labels, list problems."""
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Optional

import numpy as np
from mmengine.config import ConfigDict
from mmengine.dataset import BaseDataset
from mmseg.datasets.transforms import LoadAnnotations
from mmseg.registry import DATASETS

from abnn_mmseg.datasets.anomaly import AnomalySegDataset
from abnn_mmseg.datasets.protocol import IGNORE, OOD
from abnn_mmseg.datasets.transforms import LoadAnomalyAnnotations, read_image


@dataclass
class DatasetReport:
    """Content and problems of one dataset of a config.

    Attributes:
        loader (str): 'train', 'val' or 'test'.
        name (str): Dataset type, with its split if it has one.
        protocol (str): Name of the label protocol.
        classes (tuple[str]): Names of the train ids.
        images (int): Number of image and label pairs.
        sizes (Counter): 'width x height' -> number of images.
        pixels (np.ndarray): Pixels of each class, int64.
        ood (int): Pixels labelled OOD.
        known (int): In-distribution pixels of a class that is not labelled.
        void (int): Pixels that are never evaluated.
        problems (list[str]): One sentence for each broken file or pair.
    """
    loader: str
    name: str
    protocol: str = ''
    classes: tuple = ()
    images: int = 0
    sizes: Counter = field(default_factory=Counter)
    pixels: Optional[np.ndarray] = None
    ood: int = 0
    known: int = 0
    void: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Number of labelled and void pixels."""
        classes = 0 if self.pixels is None else int(self.pixels.sum())
        return classes + self.ood + self.known + self.void

    def share(self, pixels: int) -> float:
        """Share of all pixels; 0 for an empty dataset."""
        return float(pixels) / max(self.total, 1)

    def to_dict(self) -> dict:
        """The report as builtins, for a JSON file."""
        pixels = () if self.pixels is None else self.pixels
        return dict(
            loader=self.loader,
            dataset=self.name,
            protocol=self.protocol,
            images=self.images,
            sizes=dict(self.sizes),
            pixels=self.total,
            class_share={
                name: self.share(count)
                for name, count in zip(self.classes, pixels)
            },
            ood_share=self.share(self.ood),
            known_share=self.share(self.known),
            void_share=self.share(self.void),
            problems=self.problems)


def leaf_datasets(cfg: dict) -> Iterator[dict]:
    """Yield the datasets inside Concat, Repeat and other wrappers."""
    if 'datasets' in cfg:
        for child in cfg['datasets']:
            yield from leaf_datasets(child)
    elif 'dataset' in cfg:
        yield from leaf_datasets(cfg['dataset'])
    else:
        yield cfg


def check_config(cfg: ConfigDict,
                 loaders: tuple = ('train', 'val', 'test'),
                 progress: Optional[Callable] = None) -> list[DatasetReport]:
    """Check the datasets of all dataloaders of a config.

    Args:
        cfg (Config): A config with ``{train,val,test}_dataloader``.
        loaders (Sequence[str]): Loaders to check; missing ones are skipped.
            Defaults to all.
        progress (Callable, optional): Called with the iterator over images,
            a description and a total; returns an iterator.
    """
    reports = []
    for loader in loaders:
        dataloader = cfg.get(f'{loader}_dataloader')
        if dataloader is None:
            continue
        for dataset_cfg in leaf_datasets(dataloader['dataset']):
            reports.append(check_dataset(dataset_cfg, loader, progress))
    return reports


def check_dataset(cfg: dict,
                  loader: str = '',
                  progress: Optional[Callable] = None) -> DatasetReport:
    """Build one dataset and read all its files."""
    name = ' '.join(str(part) for part in (cfg['type'], cfg.get('split'))
                    if part)
    report = DatasetReport(loader, name)
    # A mistake in the config itself (unknown type, split, class) is raised.
    dataset = DATASETS.build(dict(cfg, pipeline=[], lazy_init=True))
    report.classes = tuple(dataset.metainfo['classes'])
    report.protocol = dataset.metainfo.get('label_protocol', 'train ids')
    report.pixels = np.zeros(len(report.classes), np.int64)
    try:
        infos = _list_files(dataset, report)
    except (FileNotFoundError, ValueError) as error:
        report.problems.append(str(error))
        return report
    report.images = len(infos)
    with ThreadPoolExecutor() as pool:
        results = pool.map(lambda info: _read(dataset, info), infos)
        if progress is not None:
            results = progress(
                results, f'{loader} {name}', len(infos))
        for result in results:
            _add(report, *result)
    return report


def _list_files(dataset: BaseDataset, report: DatasetReport) -> list[dict]:
    if isinstance(dataset, AnomalySegDataset):
        pairs = dataset.find_pairs()
        report.problems += pairs.problems
        return dataset.data_infos(pairs)
    infos = dataset.load_data_list()
    if not infos:
        raise FileNotFoundError(
            f'{type(dataset).__name__}: no images in '
            f'{dataset.data_prefix.get("img_path")}.')
    return infos


def _read(dataset: BaseDataset, info: dict) -> tuple:
    """Size and label histogram of one pair, or the problem."""
    size = None
    try:
        image = read_image(info['img_path'], dataset.backend_args)
        size = f'{image.shape[1]} x {image.shape[0]}'
        if 'seg_map_path' not in info:
            return size, None, None
        return size, _histogram(dataset, info, image.shape), None
    except Exception as error:  # noqa: BLE001 - any broken file is reported
        return size, None, str(error)


def _histogram(dataset: BaseDataset, info: dict, shape: tuple) -> np.ndarray:
    """Pixels by (train id, anomaly label), int64 ``[256, 256]``."""
    results = dict(info, ori_shape=shape[:2])
    if isinstance(dataset, AnomalySegDataset):
        results['label_tables'] = dataset.labels.tables()
        LoadAnomalyAnnotations(dataset.backend_args)(results)
        anomaly = results['gt_anomaly_map']
    else:
        LoadAnnotations(backend_args=dataset.backend_args)(results)
        anomaly = np.where(results['gt_seg_map'] == IGNORE, 255, 0)
        _check_plain(results, info, len(dataset.metainfo['classes']))
    joint = results['gt_seg_map'].astype(np.int64) * 256 + anomaly
    return np.bincount(joint.ravel(), minlength=65536).reshape(256, 256)


def _check_plain(results: dict, info: dict, num_classes: int) -> None:
    seg_map, path = results['gt_seg_map'], info['seg_map_path']
    if seg_map.shape != results['ori_shape']:
        raise ValueError(f'label {path} has shape {seg_map.shape}, its image '
                         f'{info["img_path"]} {results["ori_shape"]}.')
    strange = np.unique(seg_map[(seg_map >= num_classes)
                                & (seg_map != IGNORE)])
    if len(strange):
        raise ValueError(f'label {path} has ids {strange.tolist()}, the '
                         f'dataset {num_classes} classes.')


def _add(report: DatasetReport, size: Optional[str],
         histogram: Optional[np.ndarray], problem: Optional[str]) -> None:
    if size is not None:
        report.sizes[size] += 1
    if problem is not None:
        report.problems.append(problem)
    if histogram is not None:
        report.pixels += histogram[:len(report.classes)].sum(axis=1)
        report.ood += int(histogram[IGNORE, OOD])
        report.known += int(histogram[IGNORE, 0])
        report.void += int(histogram[IGNORE, 255])
