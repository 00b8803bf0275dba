"""The images that a student learns from."""
import copy
from typing import Any, Optional

from mmengine.config import Config, ConfigDict

from abnn_mmseg.utils.configs import part_of

PASTE = 'PasteUnknown'
# Transforms that read labels.
LABEL_LOADERS = ('LoadAnnotations', 'LoadAnomalyAnnotations')
CROPS = ('RandomCrop', 'Resize', 'RandomResize')


def distillation_loader(cfg: Config, images: Optional[str] = None,
                        train_images: bool = True) -> ConfigDict:
    """The config's training loader, with unknown things pasted in.

    Networks agree on nearly all pixels of a training image, so without
    unknown things a student would see little disagreement. A pipeline that
    has ``PasteUnknown`` already is not changed.

    Args:
        cfg (Config): With a ``train_dataloader``.
        images (str, optional): A folder of unlabelled images to add.
        train_images (bool): Use the config's own images. Defaults to True.
    """
    loader = copy.deepcopy(part_of(cfg, 'train_dataloader'))
    own = loader.dataset
    sets = [own] if train_images else []
    if images is not None:
        sets.append(unlabelled(cfg, images))
    if not sets:
        raise ValueError('there are no images to learn from; give --images '
                         'FOLDER, or leave --no-train-images out.')
    for one in sets:
        paste_into(one)
    loader.dataset = sets[0] if len(sets) == 1 else ConfigDict(
        type='ConcatDataset', datasets=sets,
        ignore_keys=['classes', 'palette', 'label_protocol', 'label_map',
                     'reduce_zero_label'])
    return loader


def unlabelled(cfg: Config, folder: str) -> ConfigDict:
    """A dataset of all images below a folder, with training transforms."""
    pipeline = [copy.deepcopy(step)
                for step in _pipeline(cfg.train_dataloader.dataset)
                if step['type'] not in LABEL_LOADERS]
    for step in pipeline:
        if step['type'] == 'RandomCrop':
            # A lower ratio would need labels.
            step['cat_max_ratio'] = 1.
    size = (cfg.model.get('data_preprocessor') or {}).get('size')
    if size and not any(step['type'] in CROPS for step in pipeline):
        # Whole images are resized to the size of training images.
        pipeline.insert(1, dict(
            type='Resize', scale=tuple(size)[::-1], keep_ratio=True))
    return ConfigDict(
        type='AnomalySegDataset',
        labels=dict(name='unlabelled', classes=(), ids=(), palette=(),
                    ood=()),
        data_prefix=dict(img_path=folder),
        pipeline=pipeline)


def paste_into(dataset: dict, **options: Any) -> None:
    """Paste unknown things into the images of a dataset's config.

    Args:
        dataset (dict): With a pipeline, or around datasets that have one.
        **options: Of ``PasteUnknown``.
    """
    pipeline = _pipeline(dataset)
    if any(step['type'] == PASTE for step in pipeline):
        return
    last = next((i for i, step in enumerate(pipeline)
                 if step['type'].startswith('Pack')), len(pipeline))
    pipeline.insert(last, dict(type=PASTE, **options))


def _pipeline(dataset: dict) -> list:
    """The pipeline of a dataset, or of the one that it wraps."""
    inner = dataset
    while 'pipeline' not in inner:
        if 'dataset' not in inner:
            raise ValueError(
                f'the dataset {dataset.get("type")} of train_dataloader has '
                'no pipeline to paste unknown things in; put '
                "dict(type='PasteUnknown') into those of its parts, or name "
                'a folder with --images and --no-train-images.')
        inner = inner['dataset']
    return inner['pipeline']
