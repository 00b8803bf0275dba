"""A module from image to probability and maps that can be exported."""
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Callable, Optional

import torch
from torch import Tensor, nn

from abnn_mmseg.compat import Normalization
from abnn_mmseg.models.guaranteed import current_guarantees
from abnn_mmseg.models.posteriors import BankPosterior
from abnn_mmseg.models.posteriors.graph import GraphNetworks
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.uncertainty import StreamingStatistics, temper
from abnn_mmseg.uncertainty.guarantees import Guarantee
from abnn_mmseg.uncertainty.scores import compute_scores, statistics_for

Logits = Callable[[Tensor], Iterator[Tensor]]


class DeployedSegmentor(nn.Module):
    """A Bayesian segmentor that ``torch.export`` can take.

    It normalizes the image, holds all networks of the posterior as constants
    and takes the mean over them. It does not resize, pad or slide.

    Args:
        model (BayesianSegmentor): In eval mode.
        image (Tensor): An example, uint8 ``[1, H, W, 3]``.
        draws_per_pass (int, optional): Networks in one batch; fewer need
            less memory and make a larger graph. Defaults to all.
    """

    mean: Optional[Tensor]
    std: Tensor

    def __init__(self, model: BayesianSegmentor, image: Tensor,
                 draws_per_pass: Optional[int] = None) -> None:
        super().__init__()
        _check(model)
        self.model = model
        known = Normalization(model.data_preprocessor)
        self.reverse = known.reverse
        self.register_buffer('mean', known.mean)
        self.register_buffer('std', known.std)
        self.draws: Logits = self._one
        self.centres: Logits = self.draws
        posterior = model.posterior
        if isinstance(posterior, BankPosterior) and not posterior.is_plain:
            networks = partial(
                self._networks, example=self.prepare(image),
                draws_per_pass=draws_per_pass or len(posterior))
            self.draws = self.centres = networks(posterior)
            if model.prediction == 'centre':
                self.centres = networks(posterior.noise_free())
        if model.prediction == 'base':
            self.centres = self._one
        self.guarantees = kept_guarantees(model)

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        """Predict an image, uint8 ``[1, H, W, 3]``, BGR as OpenCV reads it.

        Returns:
            tuple[Tensor]: The mean probability ``[1, C, H, W]`` and the maps
            ``[1, H, W]``; then label sets ``[1, C, H, W]`` and alarms
            ``[1, 1, H, W]``, bool, of the guarantees that hold.
        """
        inputs = self.prepare(image)
        if self.model.posterior.is_student:
            return self._of_student(inputs)
        statistics = self._statistics(self.draws(inputs))
        centre = statistics
        if self.centres is not self.draws:
            centre = self._statistics(self.centres(inputs))
        maps = compute_scores(statistics, self.model.scores)
        return self._outputs(centre.probability, maps)

    def _outputs(self, probability: Tensor,
                 maps: dict[str, Tensor]) -> tuple[Tensor, ...]:
        """All outputs, of ``[C, 1, H, W]`` and maps ``[1, H, W]``."""
        probability = self._tempered(probability)
        guaranteed = [g.apply(probability, maps) for g in self.guarantees]
        return (probability, *maps.values(), *guaranteed)

    def _of_student(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """The outputs of the original network with a student's head."""
        posterior, scores = self.model.posterior, self.model.scores
        meta = dict(img_shape=torch.Size(inputs.shape[2:]))
        networks = posterior.make_networks(
            lambda images: self.model.encode_decode(images, [meta]))
        statistics = centre = statistics_for(scores)
        for number, view in enumerate(posterior.views):
            [chunk] = networks.chunks([number], view, inputs)
            posterior.observe(statistics, view.through(chunk, inputs)[:, 0])
        if self.model.prediction != 'posterior_mean':
            centre = statistics_for(scores)
            centre.update(self.model.to_logits(networks.base()(inputs)[0]))
        maps = compute_scores(statistics, scores)
        return self._outputs(
            centre.probability[:, None],
            {name: map_[None] for name, map_ in maps.items()})

    def _statistics(self, logits: Iterator[Tensor]) -> StreamingStatistics:
        statistics = statistics_for(self.model.scores)
        for chunk in logits:
            statistics.update(chunk.movedim(2, 1))
        return statistics

    def _tempered(self, probability: Tensor) -> Tensor:
        temperature = self.model.current_temperature()
        if temperature != 1:
            tiny = torch.finfo(torch.float32).tiny
            probability = temper(
                probability.clamp_min(tiny).log(), temperature).exp()
        return probability.movedim(0, 1)

    def prepare(self, image: Tensor) -> Tensor:
        """Normalize an image as the data preprocessor does."""
        inputs = image.permute(0, 3, 1, 2).float()
        if self.reverse:
            inputs = inputs.flip(1)
        if self.mean is None:
            return inputs
        return (inputs - self.mean) / self.std

    def _forward(self, size: Sequence[int], inputs: Tensor) -> Tensor:
        """Logits of the given size."""
        meta = dict(img_shape=torch.Size(size))
        return self.model.to_logits(self.model.encode_decode(
            inputs, [meta] * len(inputs)))

    def _networks(self, posterior: BankPosterior, **options) -> Logits:
        """The logits of a posterior's networks."""
        if posterior.is_base:
            return self._one
        return GraphNetworks(posterior, self._forward, **options).logits

    def _one(self, inputs: Tensor) -> Iterator[Tensor]:
        yield self._forward(inputs.shape[2:], inputs)[None]


def output_names(model: BayesianSegmentor) -> list[str]:
    """Names of the outputs of :class:`DeployedSegmentor`."""
    return ['probability', *model.scores,
            *(g.risk.replace('-', '_') for g in kept_guarantees(model))]


def changes_of(model: BayesianSegmentor) -> list[str]:
    """How the graph of a segmentor differs from it, as text."""
    posterior, changes = model.posterior, []
    if (model.test_cfg or {}).get('mode') == 'slide':
        changes.append('sees whole images, not the windows of test_cfg')
    if posterior.tolerance is not None:
        changes.append('runs all networks, whatever the tolerance')
    if posterior.precision != 'float32':
        changes.append(f'computes in float32, not {posterior.precision}')
    return changes


def kept_guarantees(model: BayesianSegmentor) -> list[Guarantee]:
    """The guarantees that also hold for the graph of a segmentor."""
    return [] if changes_of(model) else current_guarantees(model)


def channels_of(model: nn.Module) -> int:
    """Number of channels of the images of a segmentor."""
    mean = getattr(model.data_preprocessor, 'mean', None)
    # One mean may stand for all channels.
    if mean is not None and len(mean) > 1:
        return len(mean)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            return module.in_channels
    return 3


def _check(model: BayesianSegmentor) -> None:
    """Raise ValueError if a graph would not compute what the model does."""
    posterior = model.posterior
    if not (posterior.is_plain or posterior.is_student
            or isinstance(posterior, BankPosterior)):
        raise ValueError(
            f'the networks of {type(posterior).__name__} are not constants '
            'that one graph can hold; export a BNLPosterior, a student, or '
            'one network with DeterministicPosterior.')
    if posterior.noise == 'element':
        raise ValueError("noise='element' draws random numbers for every "
                         "pixel; a graph needs noise='channel'.")
    channels = channels_of(model)
    if channels != 3:
        raise ValueError(
            f'the model takes images of {channels} channels; a graph takes '
            'uint8 images of three, so run the model itself, with '
            'ABNNInferencer.')
    padding = getattr(model.data_preprocessor, 'test_cfg', None)
    if padding:
        raise ValueError(
            f'data_preprocessor.test_cfg={padding} pads the image, which the '
            'graph does not; remove it and pad the input yourself.')
