"""A summary of a base and its data, for ``abnn init``."""
from typing import Optional

from mmengine.config import Config

from abnn_mmseg.cli.init_heads import main_head, num_classes_of
from abnn_mmseg.engine.evaluators import pipeline_of


def facts(cfg: Config) -> str:
    """A summary of the base, for the first comment."""
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
    crops = [step.get('crop_size') for step in pipeline_of(cfg, 'train')]
    sizes = [preprocessor.get('size'), *crops]
    pairs = [size for size in sizes if isinstance(size, (tuple, list))]
    return tuple(pairs[0]) if pairs else None


def _whole(cfg: Config) -> Optional[tuple]:
    """Width and height that test images are resized to."""
    scales = [step.get('scale') for step in pipeline_of(cfg, 'test')]
    pairs = [scale for scale in scales
             if isinstance(scale, (tuple, list)) and len(scale) == 2]
    return tuple(pairs[-1]) if pairs else None
