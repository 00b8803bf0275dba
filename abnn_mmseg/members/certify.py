"""Calibrate a guarantee on labelled images."""
import logging
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, Optional

import torch
from mmengine.config import Config
from mmengine.logging import print_log
from mmseg.registry import DATASETS

from abnn_mmseg.evaluation.risks import check_images
from abnn_mmseg.evaluation.sets import NEEDS, RiskCalibration
from abnn_mmseg.members.guarantees import weights_digest
from abnn_mmseg.members.images import Images
from abnn_mmseg.models.guaranteed import settings_of
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.uncertainty.guarantees import SET_RISKS, Guarantee
from abnn_mmseg.utils.console import progress
from abnn_mmseg.utils.files import digest_of


class Wanted(NamedTuple):
    """The wanted guarantee, see :class:`RiskCalibration`."""
    risk: str
    level: float
    score: Optional[str] = None
    part: Optional[float] = None


def certify(cfg: Config, model: BayesianSegmentor, wanted: Wanted,
            dataset_cfg: dict, name: str = 'val',
            images: Optional[int] = None) -> Guarantee:
    """Calibrate a guarantee for the current settings of a segmentor.

    Args:
        cfg (Config): Config of the training images, which are refused.
        model (BayesianSegmentor): See :func:`build_segmentor`.
        wanted (Wanted): The guarantee.
        dataset_cfg (dict): Config of the calibration images.
        name (str): Their name in messages. Defaults to 'val'.
        images (int, optional): How many images to use, evenly spread.
            Defaults to all.
    """
    score = None if wanted.risk in SET_RISKS else (
        wanted.score or model.scores[0])
    calibration = RiskCalibration(
        wanted.risk, wanted.level, score, wanted.part)
    if score not in (None, *model.scores):
        raise ValueError(f'the alarm needs the score {score!r}, which is not '
                         f"among the segmentor's {list(model.scores)}; add "
                         'it to model.scores, or give another --score.')
    data = Images(model, dataset_cfg, images)
    check_images(wanted.level, len(data), NEEDS[wanted.risk])
    check_unseen(cfg, data.dataset, data.numbers, name)
    with torch.no_grad():
        for batch in progress(data, f'Calibration on {name}', len(data)):
            model.predict(batch.inputs, batch.samples)
            calibration.process({}, [s.to_dict() for s in batch.samples])
    found = {key.split('/')[-1]: value
             for key, value in calibration.evaluate(len(data)).items()}
    posterior = model.posterior
    return Guarantee(
        wanted.risk, wanted.level, found['threshold'], int(found['images']),
        f'{name} ({type(data.dataset).__name__})',
        settings_of(model, posterior, wanted.risk, model.prediction,
                    model.current_temperature()),
        weights_digest(posterior), score, calibration.part, found['measured'])


def check_unseen(cfg: Config, dataset, chosen: list[int], name: str) -> None:
    """Refuse calibration images that the config trains on.

    A guarantee that was calibrated on training images does not hold for
    others. Files are compared by path and, if their sizes agree, by content.
    If the training images are missing, a warning is given.
    """
    try:
        training = _files(DATASETS.build(cfg.train_dataloader.dataset))
        own = _files(dataset)
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error)
        print_log(
            f'whether {name} has images of the training set is not known, '
            f'since its files cannot be listed ({reason}); a guarantee needs '
            'images that were not used in training', 'current',
            logging.WARNING)
        return
    images = [own[i] for i in chosen if own[i].is_file()]
    shared = list(_shared(images, [p for p in training if p.is_file()]))
    if shared:
        raise ValueError(
            f'{len(shared)} of the {len(chosen)} images of {name} are '
            f'training images of this config, such as {shared[0]}; the '
            'network knows them, so the promise would not hold for new '
            'images. Calibrate on others, with --data.')


def _files(dataset) -> list[Path]:
    return [Path(dataset.get_data_info(i)['img_path']).resolve()
            for i in range(len(dataset))]


def _shared(images: list[Path], training: list[Path]) -> Iterator[Path]:
    """Yield images that are training images, by path or content."""
    paths = set(training)
    by_size: dict[int, list[Path]] = {}
    for path in training:
        by_size.setdefault(path.stat().st_size, []).append(path)
    digest = cache(digest_of)
    for image in images:
        alike = by_size.get(image.stat().st_size, [])
        if image in paths or any(digest(image) == digest(o) for o in alike):
            yield image
