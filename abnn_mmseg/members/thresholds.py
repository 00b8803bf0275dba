"""Choose thresholds of the scores on validation images."""
from typing import Optional

import torch
from mmengine.config import Config

from abnn_mmseg.evaluation.curves import DetectionCurve
from abnn_mmseg.evaluation.fields import (
    IN_DISTRIBUTION,
    OOD,
    anomaly_histogram,
    pixel_kinds,
    score_map,
)
from abnn_mmseg.evaluation.histograms import ScoreHistogram
from abnn_mmseg.members.images import Batch, Images
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.configs import part_of
from abnn_mmseg.utils.console import progress


def choose_thresholds(cfg: Config,
                      model: BayesianSegmentor,
                      fpr: Optional[float] = None,
                      tpr: Optional[float] = None,
                      images: Optional[int] = None) -> list[dict]:
    """Thresholds of all scores of a segmentor on ``val_dataloader``.

    All pixels but void ones are pooled. A pixel counts as an anomaly if
    ``score >= threshold``.

    Args:
        cfg (Config): With a ``val_dataloader``.
        model (BayesianSegmentor): See :func:`build_segmentor`.
        fpr (float, optional): Choose the lowest threshold with at most this
            false positive rate.
        tpr (float, optional): Choose the highest threshold with at least this
            true positive rate. Give either ``fpr`` or ``tpr``.
        images (int, optional): How many images to use, evenly spread.
            Defaults to all.

    Returns:
        list[dict]: ``score``, ``threshold``, and its ``FPR`` and ``TPR`` on
        these images, in percent (NaN without OOD pixels).
    """
    for name, target in (('fpr', fpr), ('tpr', tpr)):
        if target is not None and not 0 < target < 1:
            raise ValueError(f'--target-{name} {target} is not between 0 and '
                             '1; write 0.05 for 5 %.')
    data = Images(model, part_of(cfg, 'val_dataloader').dataset, images)
    pooled: dict[str, ScoreHistogram] = {}
    for batch in progress(data, 'Thresholds', len(data)):
        for score, histogram in _histograms(model, batch).items():
            known = pooled.get(score)
            pooled[score] = known.merge(histogram) if known else histogram
    curves = {
        score: DetectionCurve(histogram, (OOD, ), (IN_DISTRIBUTION, ))
        for score, histogram in pooled.items()
    }
    _check_pixels(next(iter(curves.values())), tpr, len(data))
    return [_row(score, curve, fpr, tpr) for score, curve in curves.items()]


@torch.no_grad()
def _histograms(model: BayesianSegmentor,
                batch: Batch) -> dict[str, ScoreHistogram]:
    [sample] = model.predict(batch.inputs, batch.samples)
    fields = sample.to_dict()
    maps = {score: score_map(fields, score) for score in model.scores}
    labels = pixel_kinds(fields, maps[model.scores[0]])
    return {score: anomaly_histogram(values, labels)
            for score, values in maps.items()}


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
