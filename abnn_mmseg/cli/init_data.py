"""Facts about the data of a base, for ``abnn init``."""
from typing import Optional

from mmengine.config import Config
from mmseg.registry import DATASETS

from abnn_mmseg.cli.init_heads import main_head, num_classes_of
from abnn_mmseg.datasets import AnomalySegDataset


def facts(cfg: Config) -> str:
    """A few words about the base, for the first comment."""
    number = num_classes_of(cfg)
    classes = f'{number} classes' if number else 'classes of its head'
    if main_head(cfg).get('out_channels') == 1:
        classes = 'a binary head'
    size = _crop(cfg)
    trained = f'trained on crops of {size[0]}x{size[1]}' if size else (
        'trained on the images of its pipeline')
    test = cfg.model.get('test_cfg') or {}
    if test.get('mode') == 'slide':
        window = test['crop_size']
        tested = f'tested in windows of {window[0]}x{window[1]}'
    else:
        size = _whole(cfg)
        tested = 'tested on whole images' + (
            f' of {size[1]}x{size[0]}' if size else '')
    return f'{classes}, {trained}, {tested}, like the base'


def _crop(cfg: Config) -> Optional[tuple]:
    """Height and width of the crops that the base is trained on."""
    preprocessor = cfg.model.get('data_preprocessor') or {}
    crops = [step.get('crop_size') for step in _pipeline(cfg, 'train')]
    sizes = [preprocessor.get('size'), *crops]
    pairs = [size for size in sizes if isinstance(size, (tuple, list))]
    return tuple(pairs[0]) if pairs else None


def _whole(cfg: Config) -> Optional[tuple]:
    """Width and height that test images are resized to."""
    scales = [step.get('scale') for step in _pipeline(cfg, 'test')]
    pairs = [scale for scale in scales
             if isinstance(scale, (tuple, list)) and len(scale) == 2]
    return tuple(pairs[-1]) if pairs else None


def is_labelled(cfg: Config, split: str) -> bool:
    """Whether the images of a split are loaded with labels."""
    evaluator = cfg[f'{split}_evaluator']
    many = [evaluator] if isinstance(evaluator, dict) else evaluator
    return not any(metric.get('format_only') for metric in many) and any(
        'Annotation' in str(step.get('type'))
        for step in _pipeline(cfg, split))


def has_unknown(cfg: Config) -> bool:
    """Whether the test data labels what is out of distribution."""
    kind = DATASETS.get(_dataset(cfg, 'test').get('type', ''))
    return kind is not None and issubclass(kind, AnomalySegDataset)


def _dataset(cfg: Config, split: str) -> dict:
    """The dataset of a loader, inside whatever wraps it."""
    dataset = (cfg.get(f'{split}_dataloader') or {}).get('dataset') or {}
    while 'dataset' in dataset or 'datasets' in dataset:
        dataset = dataset.get('dataset') or dataset['datasets'][0]
    return dataset


def _pipeline(cfg: Config, split: str) -> list:
    return list(_dataset(cfg, split).get('pipeline') or [])
