"""From images to an answer: run networks, and stream their statistics."""
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Optional

import torch
from mmseg.models.utils import resize
from torch import Tensor

from abnn_mmseg.models.posteriors.base import Networks, Posterior
from abnn_mmseg.models.posteriors.views import View
from abnn_mmseg.models.windows import crop, stitch, windows_of
from abnn_mmseg.uncertainty import StreamingStatistics
from abnn_mmseg.uncertainty.scores import statistics_for

if TYPE_CHECKING:
    from abnn_mmseg.models.segmentor import BayesianSegmentor

PREDICTIONS = ('posterior_mean', 'centre', 'base')


class Answer(NamedTuple):
    """The statistics of a posterior's networks for some images.

    Args:
        statistics (list): Statistics over all networks, one entry per image.
        predictions (dict): For each ``prediction``, the statistics from which
            class map and probability are computed, one entry per image.
        logits (dict): For predictions of the original network alone, its
            logits ``[C, H, W]``, one entry per image. Their maximum is its
            class map, bit for bit.
        posterior (Posterior, optional): The posterior of the networks.
    """
    statistics: list[StreamingStatistics]
    predictions: dict[str, list[StreamingStatistics]]
    logits: dict[str, list[Tensor]]
    posterior: Optional[Posterior] = None


class Answering:
    """Runs networks on some images.

    Args:
        model (BayesianSegmentor): The model of the networks.
        inputs (Tensor): Preprocessed images, ``[B, C, H, W]``.
        metas (list[dict]): Meta information of each.
    """

    def __init__(self, model: 'BayesianSegmentor', inputs: Tensor,
                 metas: list[dict]) -> None:
        self.model = model
        self.inputs = inputs
        self.metas = metas
        self.windows = windows_of(tuple(inputs.shape[2:]), model.test_cfg)

    def answer(self, posterior: Posterior, wanted: Sequence[str],
               numbers: Optional[Sequence[int]] = None) -> Answer:
        """The answer of a posterior, see :meth:`BayesianSegmentor.answer`."""
        networks = posterior.make_networks(
            partial(self.model.head_outputs, self.metas))
        if posterior.is_plain:
            plain = self._base_logits(networks)
            statistics = list(map(self._statistics_of, plain))
            return Answer(statistics, dict.fromkeys(PREDICTIONS, statistics),
                          dict.fromkeys(PREDICTIONS, plain), posterior)
        with posterior.autocast(self.inputs.device):
            statistics = self._stream(posterior, networks, numbers)
        predictions = dict(posterior_mean=statistics)
        logits = {}
        if 'base' in wanted:
            logits['base'] = self._base_logits(networks)
            predictions['base'] = list(
                map(self._statistics_of, logits['base']))
        del networks  # frees the shared trunk
        if 'centre' in wanted:
            centre = self.answer(posterior.noise_free(), ())
            predictions['centre'] = centre.statistics
            if centre.logits:
                logits['centre'] = centre.logits['centre']
        return Answer(statistics, predictions, logits, posterior)

    def _stream(self, posterior: Posterior, networks: Networks,
                chosen: Optional[Sequence[int]]
                ) -> list[StreamingStatistics]:
        """The statistics of every image over all networks, or the chosen."""
        statistics = [statistics_for(self.model.scores) for _ in self.metas]
        views = posterior.views_of(len(networks))
        active = list(range(len(self.metas)))
        rounds = (posterior.rounds(len(networks)) if chosen is None else
                  [chosen])
        for numbers in rounds:
            for view, same in _by_view(numbers, views).items():
                example = view.look(crop(self.inputs, self.windows[0]))
                for chunk in networks.chunks(same, view, example):
                    outputs = stitch(partial(view.through, chunk),
                                     self.inputs, self.windows)
                    for i in active:
                        posterior.observe(
                            statistics[i], self._to_image(outputs, i))
            if posterior.tolerance is not None:
                active = _uncertain(statistics, active, posterior.tolerance)
                if not active:
                    break
        return statistics

    def _base_logits(self, networks: Networks) -> list[Tensor]:
        """Logits ``[C, H, W]`` of the original network, by image."""
        outputs = stitch(networks.base(), self.inputs, self.windows)
        return [
            self.model.to_logits(self._to_image(outputs, i))[0].float()
            for i in range(len(self.metas))
        ]

    def _statistics_of(self, logits: Tensor) -> StreamingStatistics:
        statistics = statistics_for(self.model.scores)
        statistics.update(logits[None])
        return statistics

    def _to_image(self, outputs: Tensor, number: int) -> Tensor:
        """Undo padding, flip and resizing, like mmseg's post-processing.

        Args:
            outputs (Tensor): Of n networks for all images.
            number (int): Number of the image whose outputs are wanted.
        """
        maps, meta = outputs[:, number], self.metas[number]
        left, right, top, bottom = meta.get(
            'img_padding_size', meta.get('padding_size', (0, 0, 0, 0)))
        height, width = maps.shape[2:]
        maps = maps[..., top:height - bottom, left:width - right]
        if meta.get('flip'):
            horizontal = meta.get('flip_direction') == 'horizontal'
            maps = maps.flip(-1 if horizontal else -2)
        return resize(
            maps, size=tuple(meta['ori_shape'][:2]), mode='bilinear',
            align_corners=self.model.align_corners, warning=False)


def _by_view(numbers: Sequence[int],
             views: Sequence[View]) -> dict[View, list[int]]:
    """Group networks by their view; a group shares its trunk."""
    groups: dict[View, list[int]] = {}
    for number in numbers:
        groups.setdefault(views[number], []).append(number)
    return groups


def _uncertain(statistics: Sequence[StreamingStatistics],
               active: Sequence[int], tolerance: float) -> list[int]:
    """The active images that need more networks.

    The host waits for the device here, once for all of them.
    """
    errors = torch.stack([statistics[i].standard_error() for i in active])
    return [i for i, error in zip(active, errors.tolist())
            if not error < tolerance]
