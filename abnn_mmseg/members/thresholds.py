"""Choose thresholds of the scores on validation images."""
from typing import Optional

import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmseg.registry import DATASETS

from abnn_mmseg.evaluation.curves import DetectionCurve
from abnn_mmseg.evaluation.fields import (
    IN_DISTRIBUTION,
    OOD,
    pixel_kinds,
    score_map,
)
from abnn_mmseg.evaluation.histograms import ScoreHistogram
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.choices import evenly_spaced
from abnn_mmseg.utils.configs import part_of
from abnn_mmseg.utils.console import progress


def choose_thresholds(cfg: Config,
                      model: BayesianSegmentor,
                      fpr: Optional[float] = None,
                      tpr: Optional[float] = None,
                      images: Optional[int] = None) -> list[dict]:
    """Thresholds of all scores of a segmentor on ``val_dataloader``.

    All pixels are pooled, void left out. A pixel is taken for an anomaly
    where ``score >= threshold``.

    Args:
        cfg (Config): For its validation dataset.
        model (BayesianSegmentor): Of :func:`build_segmentor`.
        fpr (float, optional): The lowest threshold that takes no more than
            this share of the in-distribution pixels for anomalies.
        tpr (float, optional): The highest threshold that finds this share of
            the OOD pixels. Give one of both.
        images (int, optional): Use so many, evenly spread. Defaults to all.

    Returns:
        list[dict]: ``score``, ``threshold``, and in percent the ``FPR`` and
        ``TPR`` it has on these images (NaN without OOD pixels).
    """
    for name, target in (('fpr', fpr), ('tpr', tpr)):
        if target is not None and not 0 < target < 1:
            raise ValueError(f'--target-{name} {target} is not between 0 and '
                             '1; write 0.05 for 5 %.')
    dataset = DATASETS.build(part_of(cfg, 'val_dataloader').dataset)
    chosen = evenly_spaced(len(dataset), images)
    pooled: dict[str, ScoreHistogram] = {}
    for i in progress(chosen, 'Thresholds', len(chosen)):
        for score, histogram in _histograms(model, dataset[i]).items():
            known = pooled.get(score)
            pooled[score] = known.merge(histogram) if known else histogram
    curves = {
        score: DetectionCurve(histogram, (OOD, ), (IN_DISTRIBUTION, ))
        for score, histogram in pooled.items()
    }
    _check_pixels(next(iter(curves.values())), tpr, len(chosen))
    return [_row(score, curve, fpr, tpr) for score, curve in curves.items()]


@torch.no_grad()
def _histograms(model: BayesianSegmentor,
                item: dict) -> dict[str, ScoreHistogram]:
    [sample] = model.test_step(pseudo_collate([item]))
    fields = sample.to_dict()
    maps = {score: score_map(fields, score) for score in model.scores}
    labels = pixel_kinds(fields, maps[model.scores[0]])
    return {
        score: ScoreHistogram.from_scores(values, labels, 3).keep_labels(2)
        for score, values in maps.items()
    }


def _check_pixels(curve: DetectionCurve, tpr: Optional[float],
                  images: int) -> None:
    if tpr is not None and not curve.num_positives:
        raise ValueError(
            f'none of the {images} validation images has an OOD pixel, so no '
            'threshold can be chosen by --target-tpr; use --target-fpr, which '
            'needs in-distribution pixels only.')
    if not curve.num_negatives:
        raise ValueError(f'none of the {images} validation images has an '
                         'in-distribution pixel; check val_dataloader.')


def _row(score: str, curve: DetectionCurve, fpr: Optional[float],
         tpr: Optional[float]) -> dict:
    threshold = curve.threshold(tpr=tpr, fpr=fpr)
    false, true = curve.rates(threshold)
    return dict(score=score, threshold=threshold, FPR=100 * false,
                TPR=100 * true)
