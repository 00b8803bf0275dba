"""Calibrate a guarantee on labelled images that nobody trained on."""
import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Optional

import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmengine.logging import print_log
from mmseg.registry import DATASETS

from abnn_mmseg.evaluation.risks import check_images
from abnn_mmseg.evaluation.sets import NEEDS, RiskCalibration
from abnn_mmseg.members.guarantees import weights_of
from abnn_mmseg.models.guaranteed import settings_of
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.uncertainty.guarantees import SET_RISKS, Guarantee
from abnn_mmseg.utils.choices import evenly_spaced
from abnn_mmseg.utils.console import progress


class Wanted(NamedTuple):
    """What shall be promised, see :class:`RiskCalibration`."""
    risk: str
    level: float
    score: Optional[str] = None
    part: Optional[float] = None


def certify(cfg: Config, model: BayesianSegmentor, wanted: Wanted,
            dataset_cfg: dict, name: str = 'val',
            images: Optional[int] = None) -> Guarantee:
    """Calibrate a guarantee for a segmentor as it is set.

    Args:
        cfg (Config): For its training images.
        model (BayesianSegmentor): Of :func:`build_segmentor`.
        wanted (Wanted): The promise.
        dataset_cfg (dict): The calibration images.
        name (str): What messages call them.
        images (int, optional): Use so many, evenly spread. Defaults to all.
    """
    score = None if wanted.risk in SET_RISKS else (
        wanted.score or model.scores[0])
    calibration = RiskCalibration(
        wanted.risk, wanted.level, score, wanted.part)
    if score not in (None, *model.scores):
        raise ValueError(f'the alarm needs the score {score!r}, which is not '
                         f"among the segmentor's {list(model.scores)}; add "
                         'it to model.scores, or give another --score.')
    dataset = DATASETS.build(dataset_cfg)
    chosen = evenly_spaced(len(dataset), images)
    check_images(wanted.level, len(chosen), NEEDS[wanted.risk])
    check_unseen(cfg, dataset, chosen, name)
    for i in progress(chosen, f'Calibration on {name}', len(chosen)):
        calibration.process({}, [_predict(model, dataset[i])])
    found = {key.split('/')[-1]: value
             for key, value in calibration.evaluate(len(chosen)).items()}
    posterior = model.posterior
    return Guarantee(
        wanted.risk, wanted.level, found['threshold'], int(found['images']),
        f'{name} ({type(dataset).__name__})',
        settings_of(model, posterior, wanted.risk, model.prediction,
                    model.current_temperature()),
        weights_of(posterior), score, calibration.part, found['measured'])


@torch.no_grad()
def _predict(model: BayesianSegmentor, item: dict) -> dict:
    [sample] = model.test_step(pseudo_collate([item]))
    return sample.to_dict()


def check_unseen(cfg: Config, dataset, chosen: list[int], name: str) -> None:
    """Refuse calibration images that the config trains on.

    A network knows the images it was trained on, so a promise that was
    calibrated on them would not hold for others. Files are compared by path
    and, where sizes agree, by content. Where the training images are not at
    hand, a warning says that nobody could look.
    """
    try:
        training = _files(DATASETS.build(cfg.train_dataloader.dataset))
        own = _files(dataset)
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error)
        print_log(
            f'whether {name} has images of the training set is not known, '
            f'since its files cannot be listed ({reason}); a guarantee needs '
            'images that nobody trained on', 'current', logging.WARNING)
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
    """Images that are among the training images, by path or content."""
    paths = set(training)
    by_size: dict[int, list[Path]] = {}
    for path in training:
        by_size.setdefault(path.stat().st_size, []).append(path)
    digests: dict[Path, bytes] = {}

    def digest(path: Path) -> bytes:
        """The SHA-256 of a file, computed once."""
        if path not in digests:
            digests[path] = hashlib.sha256(path.read_bytes()).digest()
        return digests[path]

    for image in images:
        alike = by_size.get(image.stat().st_size, [])
        if image in paths or any(digest(image) == digest(o) for o in alike):
            yield image
