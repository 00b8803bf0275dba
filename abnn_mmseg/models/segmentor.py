"""Segmentors whose predictions carry per-pixel uncertainty."""
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Callable, Optional, Union

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

from abnn_mmseg.models.bnl import bayesian_layers
from abnn_mmseg.models.convert import check_norm_types, convert_norms
from abnn_mmseg.models.losses import set_num_classes
from abnn_mmseg.models.posteriors.memory import memory_hint
from abnn_mmseg.models.windows import Window, crop, make_windows, stitch
from abnn_mmseg.uncertainty import (
    DEFAULT_SCORES,
    StreamingStatistics,
    check_scores,
    temper,
)
from abnn_mmseg.uncertainty.scores import compute_scores, statistics_for
from abnn_mmseg.utils.choices import one_of

PREDICTIONS = ('posterior_mean', 'centre')
RESOLUTIONS = ('full', 'decoder')
FINETUNED = ('scope', 'all')
# Their output is no logit but a score: how much of the masks a class has.
MASK_HEADS = ('MaskFormerHead', 'Mask2FormerHead', 'SideAdapterCLIPHead')
# A probability that is closer to zero or one has no logit of its own.
CERTAIN = 1e-6


class BayesianSegmentor(BaseSegmentor):
    """What makes an mmseg segmentor Bayesian; mixed in before it.

    The constructor converts the norms of the built model and freezes all
    other parameters, before DDP wraps the model and before an optimizer is
    built. ``predict`` loops over the posterior's networks, streams their
    statistics at the image's own resolution, and scores them.

    Args:
        posterior (dict): Config of the posterior, ``BNLPosterior`` for ABNN.
        scores (Sequence[str]): Maps to put in the ``uncertainty`` field.
        prediction (str): ``'posterior_mean'``, the paper's, or ``'centre'``:
            class map and probability of the noise-free members, maps from
            the draws. Defaults to ``'posterior_mean'``.
        convert (str | Sequence[str]): ``'all'`` norms, or names and patterns.
        exclude (Sequence[str]): Norms to leave as they are.
        finetune (str): Which norms train: those in the ``'scope'`` of the
            posterior's noise, so that members share what comes before it,
            or ``'all'``, as in the paper. Defaults to ``'scope'``.
        statistics (str): Running statistics while fine-tuning, ``'frozen'``
            or ``'update'``. Defaults to ``'frozen'``.
        resolution (str): ``'full'`` takes the statistics at the image's
            resolution; ``'decoder'`` takes them at the head's and resizes
            them once, which is cheaper and blurs the edges of the maps.
        temperature (float | str): Of the predicted mean probability, see
            :mod:`abnn_mmseg.uncertainty.temperature`; ``'members'`` takes
            the one that was fitted and stored with them. Class map and
            uncertainty maps do not depend on it. Defaults to 1, off.
    """

    def __init__(self,
                 *args,
                 posterior: dict,
                 scores: Sequence[str] = DEFAULT_SCORES,
                 prediction: str = 'posterior_mean',
                 convert: Union[str, Sequence[str]] = 'all',
                 exclude: Sequence[str] = (),
                 finetune: str = 'scope',
                 statistics: str = 'frozen',
                 resolution: str = 'full',
                 temperature: Union[float, str] = 1.,
                 **kwargs) -> None:
        check_norm_types(kwargs)
        super().__init__(*args, **kwargs)
        set_num_classes(self)
        self.scores = check_scores(scores)
        self.prediction = one_of('prediction', prediction, PREDICTIONS)
        self.resolution = one_of('resolution', resolution, RESOLUTIONS)
        self.temperature = check_temperature(temperature)
        self.finetune = one_of('finetune', finetune, FINETUNED)
        if resolution == 'decoder' and self._slides():
            raise ValueError(
                "resolution='decoder' cannot stitch windows; write "
                "resolution='full' or test_cfg=dict(mode='whole').")
        if resolution == 'decoder' and self._scores_masks():
            raise ValueError(
                "resolution='decoder' is not defined for "
                f'{type(self.decode_head).__name__}, which gives masks; '
                "write resolution='full'.")
        self.conversion = convert_norms(
            self, statistics=statistics, include=convert, exclude=exclude)
        self.posterior = MODELS.build(posterior)
        self.posterior.attach(self)
        self._freeze()

    def _freeze(self) -> None:
        """Only norms train: the noisy ones, or all."""
        self.requires_grad_(False)
        layers = bayesian_layers(self)
        self.noisy = getattr(self.posterior, 'in_scope', list(layers))
        self.trainable = list(layers) if self.finetune == 'all' else self.noisy
        for name in self.trainable:
            layers[name].requires_grad_(True)

    def train(self, mode: bool = True):
        """Training is where layers draw their own noise, one an image."""
        super().train(mode)
        # What no member file holds must not change while members train.
        for name in self.conversion.left:
            self.get_submodule(name).eval()
        noise = getattr(self.posterior, 'noise', None) if mode else None
        layers = bayesian_layers(self)
        for name in self.noisy:
            layers[name].noise = noise
        return self

    @memory_hint()
    def predict(self,
                inputs: Tensor,
                data_samples: Optional[list[SegDataSample]] = None
                ) -> list[SegDataSample]:
        """Class map, log of the mean probability, and uncertainty maps.

        When the posterior is the model itself (one network, one view), class
        map and ``seg_logits`` are the original model's, bit for bit.
        """
        if not torch.isfinite(inputs).all():
            raise ValueError(
                'the input of the segmentor holds NaN or inf; check the '
                'images, and mean and std of the data_preprocessor.')
        if self.posterior.is_model:
            return self._predict_plain(inputs, data_samples)
        if data_samples is None:
            data_samples = _samples(inputs)
        metas = [sample.metainfo for sample in data_samples]
        draws = self.draw_statistics(inputs, metas)
        centres = draws
        if self.prediction == 'centre':
            centres = self.centre_statistics(inputs, metas)
        self.conclude(inputs, data_samples, draws, centres)
        return data_samples

    def draw_statistics(self, inputs: Tensor,
                        metas: list[dict]) -> list[StreamingStatistics]:
        """Of all networks, by image."""
        return self._stream(self.posterior.networks, inputs, metas)

    def centre_statistics(self, inputs: Tensor,
                          metas: list[dict]) -> list[StreamingStatistics]:
        """Of the noise-free networks, by image."""
        return self._stream(self.posterior.centre, inputs, metas)

    def conclude(self, inputs: Tensor, data_samples: list[SegDataSample],
                 draws: list[StreamingStatistics],
                 centres: list[StreamingStatistics]) -> None:
        """Class map and probability from the centres, maps from the draws."""
        for sample, drawn, centre in zip(data_samples, draws, centres):
            full = partial(self._at_full, inputs.shape[2:], sample.metainfo)
            self._set_prediction(sample, full(centre.probability))
            self._set_uncertainty(sample, drawn, full)

    def _predict_plain(self, inputs, data_samples):
        data_samples = super().predict(inputs, data_samples)
        for sample in data_samples:
            # Mixed precision ends here; numpy knows no bfloat16.
            sample.seg_logits.data = sample.seg_logits.data.float()
            logits = self._to_logits(sample.seg_logits.data)
            statistics = statistics_for(self.scores)
            # A sigmoid head's seg_logits are probabilities already.
            statistics.update(
                (logits.logit(CERTAIN) if self.out_channels == 1 else logits
                 )[None])
            if self.current_temperature() != 1:
                self._set_prediction(sample, statistics.probability)
            self._set_uncertainty(sample, statistics, lambda maps: maps)
        return data_samples

    def _stream(self, networks, inputs: Tensor,
                metas: list[dict]) -> list[StreamingStatistics]:
        """The statistics of every image over all networks."""
        statistics = [statistics_for(self.scores) for _ in metas]
        tolerance = getattr(self.posterior, 'tolerance', None)
        active = list(range(len(metas)))
        for logits_of in self._each_chunk(networks, inputs, metas):
            for i in active:
                statistics[i].update(logits_of(i))
            if tolerance is not None:
                active = [
                    i for i in active
                    if not statistics[i].is_certain(tolerance)
                ]
                if not active:
                    break
        return statistics

    def _each_chunk(self, networks, inputs: Tensor, metas: list[dict]
                    ) -> Iterator[Callable[[int], Tensor]]:
        """Yield, for each chunk of n networks, a function that gives the
        logits ``[n, C, H, W]`` of the image with that number."""
        windows = self._windows(inputs)
        forward = partial(self._logits, metas)
        sizes: Optional[dict[tuple, tuple]] = (
            {} if self.resolution == 'decoder' else None)
        for view in self.posterior.views:
            example = view.look(crop(inputs, windows[0]))
            for chunk in networks(forward, example):
                seen = partial(view.through, chunk, sizes)
                yield partial(
                    self._logits_of, stitch(seen, inputs, windows), metas)

    def _logits_of(self, logits: Tensor, metas: list[dict],
                   number: int) -> Tensor:
        return self._to_logits(
            self._restore(logits[:, number], metas[number]))

    def _logits(self, metas: list[dict], images: Tensor) -> Tensor:
        """One deterministic pass over whole images or over a window."""
        if self.resolution == 'decoder':
            return self._forward(images)
        if self._slides():
            metas = [dict(m, img_shape=images.shape[2:]) for m in metas]
        return self.encode_decode(images, metas)

    def _scores_masks(self) -> bool:
        kinds = type(self.decode_head).__mro__
        return any(kind.__name__ in MASK_HEADS for kind in kinds)

    def _to_logits(self, outputs: Tensor) -> Tensor:
        """What a softmax turns into probabilities."""
        if not self._scores_masks():
            return outputs
        return outputs.clamp_min(CERTAIN).log()

    def _slides(self) -> bool:
        return (self.test_cfg or {}).get('mode', 'whole') == 'slide'

    def _windows(self, inputs: Tensor) -> list[Window]:
        """The windows of ``test_cfg``, as mmseg's slide inference has."""
        size = tuple(inputs.shape[2:])
        if not self._slides():
            return make_windows(size, size, size)
        return make_windows(
            size, self.test_cfg.crop_size, self.test_cfg.stride)

    def _restore(self, logits: Tensor, meta: dict) -> Tensor:
        if self.resolution == 'decoder':
            return logits
        return self._to_image(logits, meta)

    def _at_full(self, size: tuple, meta: dict, maps: Tensor) -> Tensor:
        """Maps ``[C, h, w]`` at the image's resolution."""
        if self.resolution == 'full':
            return maps
        maps = resize(
            maps[None], size, mode='bilinear',
            align_corners=self.align_corners)
        return self._to_image(maps, meta)[0]

    def _to_image(self, maps: Tensor, meta: dict) -> Tensor:
        """Undo padding, flip and resizing, as mmseg's post-processing."""
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

    def _set_prediction(self, sample: SegDataSample,
                        probability: Tensor) -> None:
        logits = probability.clamp_min(torch.finfo(torch.float32).tiny).log()
        logits = temper(logits, self.current_temperature())
        if self.out_channels == 1:
            foreground = probability[1:]
            labels = (foreground > self.decode_head.threshold).to(logits)
            # mmseg keeps the probability of a sigmoid head.
            logits = (foreground if self.current_temperature() == 1 else
                      logits[1:].exp())
        else:
            labels = probability.argmax(0, keepdim=True)
        sample.set_data(
            dict(
                seg_logits=PixelData(data=logits),
                pred_sem_seg=PixelData(data=labels)))

    def current_temperature(self) -> float:
        """The number that ``temperature`` stands for."""
        if not isinstance(self.temperature, str):
            return self.temperature
        known = getattr(self.posterior, 'temperatures', {})
        if self.prediction not in known:
            raise ValueError(
                "temperature='members', but the members have none for "
                f'prediction={self.prediction!r} and this posterior '
                f'({getattr(self.posterior, "noise_settings", "no noise")}); '
                'fit it with '
                '`tools/members.py temperature CONFIG BASE MEMBERS`, or '
                'write a number.')
        return known[self.prediction]

    def _set_uncertainty(self, sample: SegDataSample,
                         statistics: StreamingStatistics,
                         full: Callable[[Tensor], Tensor]) -> None:
        # Scores before resizing: an entropy of interpolated probabilities
        # would show edges of classes as disagreement.
        maps = compute_scores(statistics, self.scores)
        sample.set_data(
            dict(uncertainty=PixelData(
                **{name: full(map_[None]) for name, map_ in maps.items()})))
        sample.set_metainfo(dict(draws=statistics.count))


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


def check_temperature(temperature: Union[float, str]) -> Union[float, str]:
    """Refuse what is neither a temperature nor the place of one."""
    if temperature != 'members' and (isinstance(temperature, str)
                                     or not 0 < temperature < float('inf')):
        raise ValueError(
            f'temperature={temperature!r} of the segmentor must be positive, '
            "1 for none, or 'members' for the one stored with them.")
    return temperature


def _samples(inputs: Tensor) -> list[SegDataSample]:
    """Samples of images that nobody resized or padded."""
    shape = inputs.shape[2:]
    meta = dict(ori_shape=shape, img_shape=shape, pad_shape=shape)
    return [SegDataSample(metainfo=meta) for _ in inputs]
