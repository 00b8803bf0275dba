"""Segmentors that predict per-pixel uncertainty."""
from collections.abc import Sequence
from functools import partial
from typing import Callable, NamedTuple, Optional, Union

import torch
from mmengine.structures import PixelData
from mmseg.models.segmentors import (
    BaseSegmentor,
    CascadeEncoderDecoder,
    EncoderDecoder,
    MultimodalEncoderDecoder,
)
from mmseg.models.utils import resize
from mmseg.registry import MODELS
from mmseg.structures import SegDataSample
from torch import Tensor

from abnn_mmseg.compat import PreparesState
from abnn_mmseg.models.architectures import MASK_HEADS
from abnn_mmseg.models.bnl import TrainingNoise, bayesian_layers
from abnn_mmseg.models.checks import (
    check_finite,
    check_temperature,
    check_test_cfg,
)
from abnn_mmseg.models.convert import check_norm_types, convert_norms
from abnn_mmseg.models.guaranteed import holding, set_guaranteed
from abnn_mmseg.models.losses import set_num_classes
from abnn_mmseg.models.posteriors import Posterior
from abnn_mmseg.models.posteriors.base import Networks
from abnn_mmseg.models.posteriors.memory import memory_hint
from abnn_mmseg.models.posteriors.options import check_options
from abnn_mmseg.models.posteriors.views import View
from abnn_mmseg.models.windows import (
    Window,
    crop,
    make_windows,
    stitch,
)
from abnn_mmseg.uncertainty import (
    DEFAULT_SCORES,
    StreamingStatistics,
    check_scores,
    temper,
)
from abnn_mmseg.uncertainty.scores import compute_scores, statistics_for
from abnn_mmseg.utils.choices import one_of

PREDICTIONS = ('posterior_mean', 'centre', 'base')
FINETUNED = ('scope', 'all')
# Lower bound of mask scores, which their logarithm needs.
CERTAIN = 1e-6


class Answer(NamedTuple):
    """The statistics of a posterior's networks for some images.

    Args:
        draws (list): Statistics over all networks, one entry per image.
        predictions (dict): For each ``prediction``, the statistics from which
            class map and probability are computed, one entry per image.
        logits (dict): For predictions of the original network alone, its
            logits ``[C, H, W]``, one entry per image. Their maximum is its
            class map, bit for bit.
        posterior (Posterior, optional): The posterior of the networks.
    """
    draws: list[StreamingStatistics]
    predictions: dict[str, list[StreamingStatistics]]
    logits: dict[str, list[Tensor]]
    posterior: Optional[Posterior] = None


class BayesianSegmentor(PreparesState, BaseSegmentor):
    """A mixin that makes an mmseg segmentor Bayesian.

    The constructor converts the norms of the built model and freezes all
    other parameters, before DDP wraps the model and before an optimizer is
    built. :meth:`answer` runs the posterior's networks and streams their
    statistics at the image's own resolution; ``predict`` computes class map
    and scores from it. The model keeps nothing of a prediction, so several
    threads may predict at once.

    Args:
        posterior (dict): Config of the posterior, ``BNLPosterior`` for ABNN.
        scores (Sequence[str]): Maps to put in the ``uncertainty`` field.
        prediction (str, optional): The source of class map and probability:
            ``'base'``, the original network, bit for bit; ``'centre'``, the
            noise-free members; or ``'posterior_mean'``, as in the paper. The
            uncertainty maps are always computed from the draws. Defaults to
            ``'base'`` for ABNN, else to ``'posterior_mean'``.
        convert (str | Sequence[str]): ``'all'`` norms, or names and patterns.
        exclude (Sequence[str]): Norms not to convert.
        finetune (str): Which norms train: those in the ``'scope'`` of the
            posterior, so that members share all layers before it, or
            ``'all'``, as in the paper. Defaults to ``'scope'``.
        statistics (str): Running statistics while fine-tuning, ``'frozen'``
            or ``'update'``. Defaults to ``'frozen'``.
        temperature (float | str): Temperature of the predicted probability,
            see :mod:`abnn_mmseg.uncertainty.temperature`; ``'members'`` is
            the one that was fitted and stored with the members. Class map and
            uncertainty maps do not depend on it. Defaults to 1.
        guarantees (str, optional): File of guarantees that ``abnn certify``
            wrote, for models without members.
    """

    # Functions that load members beside the weights. abnn_mmseg.members, a
    # higher layer, sets them.
    before_load: Callable[[dict], list]
    after_load: Callable[..., None]

    def __init__(self,
                 *args,
                 posterior: dict,
                 scores: Sequence[str] = DEFAULT_SCORES,
                 prediction: Optional[str] = None,
                 convert: Union[str, Sequence[str]] = 'all',
                 exclude: Sequence[str] = (),
                 finetune: str = 'scope',
                 statistics: str = 'frozen',
                 temperature: Union[float, str] = 1.,
                 guarantees: Optional[str] = None,
                 **kwargs) -> None:
        check_norm_types(kwargs)
        super().__init__(*args, **kwargs)
        set_num_classes(self)
        self.scores = check_scores(scores)
        self.temperature = temperature
        self.guarantee_file = guarantees
        self.finetune = one_of('finetune', finetune, FINETUNED)
        check_test_cfg(self.test_cfg or {})
        self.conversion = convert_norms(
            self, statistics=statistics, include=convert, exclude=exclude)
        check_options(posterior)
        self.posterior: Posterior = MODELS.build(posterior)
        self.prediction = prediction or self.posterior.prediction
        self._check_settings()
        self.posterior.attach(self)
        self._freeze()
        self.register_load_state_dict_post_hook(BayesianSegmentor._loaded)

    def prepare_state(self, state_dict: dict, prefix: str) -> None:
        """Remove the members of a checkpoint from its state dict."""
        self._carried = self.before_load(state_dict)

    def _loaded(self, *_) -> None:
        self.after_load(self.__dict__.pop('_carried', []))

    def _check_settings(self) -> None:
        """Check the settings, also before predictions: they may change."""
        self.scores = check_scores(self.scores)
        one_of('prediction', self.prediction, PREDICTIONS)
        check_temperature(self.temperature)

    def _freeze(self) -> None:
        """Freeze all parameters except those of the norms that train."""
        self.requires_grad_(False)
        layers = bayesian_layers(self)
        self.trainable = (list(layers) if self.finetune == 'all' else
                          self.posterior.in_scope)
        for name in self.trainable:
            layers[name].requires_grad_(True)

    def train(self, mode: bool = True):
        """Let layers draw fresh noise for each image while they train."""
        super().train(mode)
        # These norms are not in member files, so they must not change.
        for name in self.conversion.left:
            self.get_submodule(name).eval()
        kind = self.posterior.noise
        alphas = self.posterior.alphas() if mode and kind else {}
        for name, layer in bayesian_layers(self).items():
            layer.noise = (TrainingNoise(kind, alphas[name])
                           if kind and name in alphas else None)
        return self

    @memory_hint()
    def predict(self,
                inputs: Tensor,
                data_samples: Optional[list[SegDataSample]] = None
                ) -> list[SegDataSample]:
        """Class map, log of the mean probability, and uncertainty maps.

        When the posterior is the model itself (one network, one view), and
        with ``prediction='base'``, the class map is the original model's,
        bit for bit.
        """
        if self.training:
            raise ValueError('the model is in training mode, in which batch '
                             'statistics and dropout change its maps; call '
                             'model.eval() before predicting.')
        self._check_settings()
        if data_samples is None:
            data_samples = [SegDataSample(metainfo=meta)
                            for meta in whole_metas(inputs)]
        metas = [sample.metainfo for sample in data_samples]
        self.conclude(self.answer(inputs, metas), data_samples)
        check_finite([inputs], data_samples)
        return data_samples

    def answer(self,
               inputs: Tensor,
               metas: list[dict],
               posterior: Optional[Posterior] = None,
               predictions: Optional[Sequence[str]] = None,
               numbers: Optional[Sequence[int]] = None) -> Answer:
        """Compute the statistics of a posterior's networks for images.

        Args:
            inputs (Tensor): Preprocessed images, ``[B, C, H, W]``.
            metas (list[dict]): Meta information of each.
            posterior (Posterior, optional): Any one that is attached to this
                model. Defaults to the model's own.
            predictions (Sequence[str], optional): Predictions to compute,
                see ``PREDICTIONS``. Defaults to the model's own.
            numbers (Sequence[int], optional): Run only these networks of the
                posterior. Defaults to all.
        """
        posterior = self.posterior if posterior is None else posterior
        posterior.check()
        wanted = [self.prediction] if predictions is None else predictions
        forward = partial(self._logits, metas)
        networks = posterior.draws(forward)
        if posterior.is_plain:
            plain = self._plain_logits(networks, inputs, metas)
            draws = [self._statistics_of(logits) for logits in plain]
            return Answer(draws, dict.fromkeys(PREDICTIONS, draws),
                          dict.fromkeys(PREDICTIONS, plain), posterior)
        with posterior.autocast(inputs.device):
            draws = self._stream(
                posterior, networks, inputs, metas, numbers)
        found = dict(posterior_mean=draws)
        logits = {}
        if 'base' in wanted:
            logits['base'] = self._plain_logits(networks, inputs, metas)
            found['base'] = list(map(self._statistics_of, logits['base']))
        del networks  # frees the shared trunk
        if 'centre' in wanted:
            centre = self.answer(inputs, metas, posterior.noise_free(), ())
            found['centre'] = centre.draws
            if centre.logits:
                logits['centre'] = centre.logits['centre']
        return Answer(draws, found, logits, posterior)

    def conclude(self,
                 answer: Answer,
                 data_samples: list[SegDataSample],
                 prediction: Optional[str] = None,
                 temperature: Union[None, float, str] = None) -> None:
        """Write class map, probability and maps of an answer into samples.

        Args:
            answer (Answer): The answer for the samples' images.
            data_samples (list[SegDataSample]): The samples to write into.
            prediction (str, optional): Defaults to the model's own.
            temperature (float | str, optional): Defaults to the model's own.
        """
        prediction = prediction or self.prediction
        temperature = self.current_temperature(prediction, temperature)
        plain = answer.logits.get(prediction)
        guarantees = [] if answer.posterior is None else holding(
            self, answer.posterior, prediction, temperature)
        for i, sample in enumerate(data_samples):
            self._set_prediction(
                sample, answer.predictions[prediction][i].probability,
                None if plain is None else plain[i], temperature)
            self._set_uncertainty(sample, answer.draws[i])
            if guarantees:
                set_guaranteed(sample, guarantees)

    def _stream(self, posterior: Posterior, networks: Networks,
                inputs: Tensor, metas: list[dict],
                chosen: Optional[Sequence[int]]
                ) -> list[StreamingStatistics]:
        """The statistics of every image over all networks, or the chosen."""
        statistics = [statistics_for(self.scores) for _ in metas]
        windows = self._windows(inputs)
        views = posterior.views_of(len(networks))
        active = list(range(len(metas)))
        rounds = (posterior.rounds(len(networks)) if chosen is None else
                  [chosen])
        for numbers in rounds:
            for view, same in _by_view(numbers, views).items():
                example = view.look(crop(inputs, windows[0]))
                for chunk in networks.chunks(same, view, example):
                    logits = stitch(
                        partial(view.through, chunk), inputs, windows)
                    for i in active:
                        posterior.observe(statistics[i], self._to_image(
                            logits[:, i], metas[i]))
            if posterior.tolerance is not None:
                active = _uncertain(statistics, active, posterior.tolerance)
                if not active:
                    break
        return statistics

    def _plain_logits(self, networks: Networks, inputs: Tensor,
                      metas: list[dict]) -> list[Tensor]:
        """Logits ``[C, H, W]`` of the original network, by image."""
        logits = stitch(networks.base(), inputs, self._windows(inputs))
        return [
            self._to_logits(self._to_image(logits[:, i], meta))[0].float()
            for i, meta in enumerate(metas)
        ]

    def _statistics_of(self, logits: Tensor) -> StreamingStatistics:
        statistics = statistics_for(self.scores)
        statistics.update(logits[None])
        return statistics

    def _logits(self, metas: list[dict], images: Tensor,
                model: Optional['BayesianSegmentor'] = None) -> Tensor:
        """One deterministic pass over whole images or over a window.

        ``model`` may be a copy of this one with other weights.
        """
        if self._slides():
            metas = [dict(m, img_shape=images.shape[2:]) for m in metas]
        return (model or self).encode_decode(images, metas)

    def _scores_masks(self) -> bool:
        kinds = type(self.decode_head).__mro__
        return any(kind.__name__ in MASK_HEADS for kind in kinds)

    def _to_logits(self, outputs: Tensor) -> Tensor:
        """Logits from the head's outputs; mask heads give probabilities."""
        if not self._scores_masks():
            return outputs
        return outputs.clamp_min(CERTAIN).log()

    def _slides(self) -> bool:
        return (self.test_cfg or {}).get('mode', 'whole') == 'slide'

    def _windows(self, inputs: Tensor) -> list[Window]:
        """The windows of ``test_cfg``, those of mmseg's slide inference."""
        size = tuple(inputs.shape[2:])
        if not self._slides():
            return make_windows(size, size, size)
        return make_windows(
            size, self.test_cfg.crop_size, self.test_cfg.stride)

    def _to_image(self, maps: Tensor, meta: dict) -> Tensor:
        """Undo padding, flip and resizing, like mmseg's post-processing."""
        left, right, top, bottom = meta.get(
            'img_padding_size', meta.get('padding_size', (0, 0, 0, 0)))
        height, width = maps.shape[2:]
        maps = maps[..., top:height - bottom, left:width - right]
        if meta.get('flip'):
            horizontal = meta.get('flip_direction') == 'horizontal'
            maps = maps.flip(-1 if horizontal else -2)
        return resize(
            maps, size=tuple(meta['ori_shape'][:2]), mode='bilinear',
            align_corners=self.align_corners, warning=False)

    def _set_prediction(self, sample: SegDataSample, probability: Tensor,
                        plain: Optional[Tensor],
                        temperature: float) -> None:
        logits = probability.clamp_min(torch.finfo(torch.float32).tiny).log()
        if self.out_channels == 1:
            # Rounding must not move a pixel across the original threshold.
            foreground = probability[1:] if plain is None else plain.sigmoid()
            labels = (foreground > self.decode_head.threshold).to(logits)
        else:
            labels = (probability if plain is None else plain).argmax(
                0, keepdim=True)
            logits = logits if plain is None else plain.log_softmax(0)
        sample.set_data(
            dict(
                seg_logits=PixelData(data=temper(logits, temperature)),
                pred_sem_seg=PixelData(data=labels)))

    def current_temperature(
            self, prediction: Optional[str] = None,
            temperature: Union[None, float, str] = None) -> float:
        """The number of ``temperature``, by default of the model's own."""
        if temperature is None:
            temperature = self.temperature
        if not isinstance(temperature, str):
            return temperature
        prediction = prediction or self.prediction
        known = self.posterior.temperatures
        if prediction not in known:
            raise ValueError(
                "temperature='members', but the members have none for "
                f'prediction={prediction!r} and this posterior '
                f'({self.posterior.noise_settings}); fit it with '
                '`abnn members temperature CONFIG BASE MEMBERS`, or '
                'write a number.')
        return known[prediction]

    def _set_uncertainty(self, sample: SegDataSample,
                         statistics: StreamingStatistics) -> None:
        maps = compute_scores(statistics, self.scores)
        sample.set_data(
            dict(uncertainty=PixelData(
                **{name: map_[None] for name, map_ in maps.items()})))
        sample.set_metainfo(dict(draws=statistics.count))


def _by_view(numbers: Sequence[int],
             views: Sequence[View]) -> dict[View, list[int]]:
    """Group networks by their view; a group shares its trunk."""
    groups: dict[View, list[int]] = {}
    for number in numbers:
        groups.setdefault(views[number], []).append(number)
    return groups


@MODELS.register_module()
class BayesianEncoderDecoder(BayesianSegmentor, EncoderDecoder):
    """``EncoderDecoder`` with per-pixel uncertainty."""


@MODELS.register_module()
class BayesianCascadeEncoderDecoder(BayesianSegmentor,
                                    CascadeEncoderDecoder):
    """``CascadeEncoderDecoder`` with per-pixel uncertainty."""


@MODELS.register_module()
class BayesianMultimodalEncoderDecoder(BayesianSegmentor,
                                       MultimodalEncoderDecoder):
    """``MultimodalEncoderDecoder`` (SAN) with per-pixel uncertainty."""


def _uncertain(statistics: Sequence[StreamingStatistics],
               active: Sequence[int], tolerance: float) -> list[int]:
    """The active images that need more networks.

    The host waits for the device here, once for all of them.
    """
    errors = torch.stack([statistics[i].standard_error() for i in active])
    return [i for i, error in zip(active, errors.tolist())
            if not error < tolerance]


def whole_metas(inputs: Tensor) -> list[dict]:
    """Meta information of images that were not resized or padded."""
    size = tuple(inputs.shape[2:])
    return [dict(ori_shape=size, img_shape=size, pad_shape=size)
            for _ in inputs]
