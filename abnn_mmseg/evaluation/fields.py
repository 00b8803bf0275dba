"""Read and check the fields of a sample for the metrics."""
import torch
from torch import Tensor

from abnn_mmseg.datasets.protocol import (  # noqa: F401
    IGNORE,
    IN_DISTRIBUTION,
    OOD,
)
from abnn_mmseg.evaluation.histograms import ScoreHistogram

# The column of void pixels in the counts of a histogram. In label files void
# is 255.
VOID_COLUMN = 2


def score_map(sample: dict, name: str) -> Tensor:
    """The uncertainty map of one score, float ``[H, W]``."""
    maps = sample.get('uncertainty') or {}
    if name not in maps:
        present = ', '.join(sorted(maps)) or 'none'
        raise ValueError(
            f'Score {name!r} is not among the maps predicted for '
            f'{path_of(sample)} (present: {present}); add it to the '
            "segmentor's scores=(...), or take it out of the metric's.")
    scores = maps[name].squeeze(0)
    if scores.isnan().any():
        raise ValueError(f'Score {name!r} of {path_of(sample)} has NaN values')
    return scores


def anomaly_labels(sample: dict, scores: Tensor) -> Tensor:
    """``IN_DISTRIBUTION``, ``OOD`` or ``VOID_COLUMN`` by pixel, uint8."""
    labels = _ground_truth(sample, 'gt_anomaly', 'LoadAnomalyAnnotations and '
                           'PackAnomalyInputs', scores)
    void = labels == IGNORE
    if (((labels > OOD) | (labels < 0)) & ~void).any():
        raise ValueError(
            f'gt_anomaly of {path_of(sample)} has values other than 0 '
            '(in-distribution), 1 (OOD) and 255 (void).')
    return labels.to(torch.uint8).masked_fill(void, VOID_COLUMN)


def pixel_kinds(sample: dict, scores: Tensor) -> Tensor:
    """As :func:`anomaly_labels`, also for images without anomaly labels.

    There, pixels with a class are in-distribution and all others void.
    """
    if 'gt_anomaly' in sample:
        return anomaly_labels(sample, scores)
    labels = _ground_truth(sample, 'gt_sem_seg', 'LoadAnnotations', scores)
    return (labels == IGNORE).to(torch.uint8) * VOID_COLUMN


def anomaly_histogram(scores: Tensor, labels: Tensor) -> ScoreHistogram:
    """Count the in-distribution and OOD pixels by score, without void.

    Args:
        scores (Tensor): The score of each pixel.
        labels (Tensor): See :func:`anomaly_labels`.
    """
    return ScoreHistogram.from_scores(
        scores, labels, VOID_COLUMN + 1).keep_labels(VOID_COLUMN)


def class_logits(sample: dict) -> Tensor:
    """Logits whose softmax is the mean probability, ``[C, H * W]``.

    Heads with one output have two classes. For them mmseg stores the
    foreground probability, not a logit.
    """
    if 'seg_logits' not in sample:
        raise ValueError(f'The prediction for {path_of(sample)} has no '
                         'seg_logits; calibration needs them.')
    logits = sample['seg_logits']['data'].float().flatten(1)
    top = logits.amax(0)  # is NaN if any logit of a pixel is
    if top.isnan().any():
        raise ValueError(f'seg_logits of {path_of(sample)} have NaN values')
    if top.isinf().any():
        # A single -inf is a class of probability 0, which is allowed.
        raise ValueError(
            f'seg_logits of {path_of(sample)} are infinite, so they have no '
            'softmax; run the network in float32, or load weights of a '
            'training that did not diverge.')
    if len(logits) == 1:
        eps = torch.finfo(logits.dtype).eps
        foreground = logits.clamp(eps, 1 - eps)
        logits = torch.cat([(1 - foreground).log(), foreground.log()])
    return logits


def class_labels(sample: dict) -> Tensor:
    """Train ids, 255 where there is none, int64 ``[H * W]``."""
    logits = sample['seg_logits']['data']
    num_classes = max(2, len(logits))
    labels = _ground_truth(sample, 'gt_sem_seg', 'LoadAnnotations',
                           logits).flatten().long()
    wrong = ((labels >= num_classes) | (labels < 0)) & (labels != IGNORE)
    if wrong.any():
        raise ValueError(
            f'gt_sem_seg of {path_of(sample)} has label '
            f'{int(labels[wrong][0])}, but the model predicts {num_classes} '
            'classes. Labels outside its classes must be 255.')
    return labels


def path_of(sample: dict) -> str:
    """The path of a sample, for messages."""
    return str(sample.get('img_path', 'an image without img_path'))


def _ground_truth(sample: dict, name: str, loader: str,
                  prediction: Tensor) -> Tensor:
    if name not in sample:
        raise ValueError(f'{path_of(sample)} has no {name}; load it in the '
                         f'test pipeline with {loader}.')
    labels, shape = sample[name]['data'].squeeze(0), prediction.shape[-2:]
    if labels.shape != shape:
        raise ValueError(
            f'{name} of {path_of(sample)} is {tuple(labels.shape)}, but the '
            f'prediction is {tuple(shape)}; the labels must not be resized '
            'at test time (load them after Resize).')
    # mmengine moves images to the GPU, but not labels.
    return labels.to(prediction.device)
