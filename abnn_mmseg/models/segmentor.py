"""Segmentors that predict per-pixel uncertainty."""
from collections.abc import Sequence
from typing import Callable, Optional, Union

import torch
from mmengine.structures import PixelData
from mmseg.models.segmentors import (
    BaseSegmentor,
    CascadeEncoderDecoder,
    EncoderDecoder,
    MultimodalEncoderDecoder,
)
from mmseg.registry import MODELS
from mmseg.structures import SegDataSample
from torch import Tensor

from abnn_mmseg.compat import PreparesState
from abnn_mmseg.models.answering import PREDICTIONS, Answer, Answering
from abnn_mmseg.models.architectures import MASK_HEADS
from abnn_mmseg.models.bayesian_norm import TrainingNoise, bayesian_layers
from abnn_mmseg.models.checks import (
    check_finite,
    check_temperature,
    check_test_cfg,
)
from abnn_mmseg.models.convert import check_norm_types, convert_norms
from abnn_mmseg.models.guaranteed import guarantees_that_hold, set_guaranteed
from abnn_mmseg.models.losses import set_num_classes
from abnn_mmseg.models.posteriors import Posterior
from abnn_mmseg.models.posteriors.memory import memory_hint
from abnn_mmseg.models.posteriors.options import check_options
from abnn_mmseg.models.windows import slides
from abnn_mmseg.uncertainty import (
    DEFAULT_SCORES,
    StreamingStatistics,
    check_scores,
    temper,
)
from abnn_mmseg.uncertainty.scores import compute_scores
from abnn_mmseg.utils.choices import one_of

FINETUNED = ('scope', 'all')
# Lower bound of mask scores, which their logarithm needs.
CERTAIN = 1e-6


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
        return Answering(self, inputs, metas).answer(
            posterior, wanted, numbers)

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
        guarantees = [] if answer.posterior is None else guarantees_that_hold(
            self, answer.posterior, prediction, temperature)
        for i, sample in enumerate(data_samples):
            self._set_prediction(
                sample, answer.predictions[prediction][i].probability,
                None if plain is None else plain[i], temperature)
            self._set_uncertainty(sample, answer.statistics[i])
            if guarantees:
                set_guaranteed(sample, guarantees)

    def head_outputs(self, metas: list[dict], images: Tensor,
                     model: Optional['BayesianSegmentor'] = None) -> Tensor:
        """What the head gives in one pass without noise of its own.

        Args:
            metas (list[dict]): Meta information of the images.
            images (Tensor): Whole images, or one window of each.
            model (BayesianSegmentor, optional): A copy of this one with
                other weights to run instead.
        """
        if slides(self.test_cfg):
            metas = [dict(m, img_shape=images.shape[2:]) for m in metas]
        return (model or self).encode_decode(images, metas)

    def _scores_masks(self) -> bool:
        kinds = type(self.decode_head).__mro__
        return any(kind.__name__ in MASK_HEADS for kind in kinds)

    def to_logits(self, outputs: Tensor) -> Tensor:
        """Logits from the head's outputs; mask heads give probabilities."""
        if not self._scores_masks():
            return outputs
        return outputs.clamp_min(CERTAIN).log()

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


def whole_metas(inputs: Tensor) -> list[dict]:
    """Meta information of images that were not resized or padded."""
    size = tuple(inputs.shape[2:])
    return [dict(ori_shape=size, img_shape=size, pad_shape=size)
            for _ in inputs]
