"""The interface of all posteriors."""
import copy
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

import torch
from mmseg.registry import MODELS
from torch import Tensor

from abnn_mmseg.models.posteriors.views import View, assign_views, make_views
from abnn_mmseg.uncertainty.guarantees import Guarantee
from abnn_mmseg.uncertainty.statistics import StreamingStatistics
from abnn_mmseg.utils.choices import one_of

if TYPE_CHECKING:
    from abnn_mmseg.models.segmentor import BayesianSegmentor

# From images [B, 3, H, W] to the head's outputs [B, C, H, W]: logits, or
# probabilities of mask heads. A copy of the model with other weights may be
# the second argument.
Forward = Callable[..., Tensor]
# From images to the outputs [n, B, C, H, W] of n networks.
Chunk = Callable[[Tensor], Tensor]
PRECISIONS = ('float32', 'bfloat16')


class Networks:
    """The networks of a posterior for one input, ready to run.

    This base class runs the unchanged model ``count`` times.

    Args:
        forward (Callable): The model's deterministic pass.
        count (int): Number of networks. Defaults to 1.
    """

    def __init__(self, forward: Forward, count: int = 1) -> None:
        self.forward = forward
        self.count = count

    def __len__(self) -> int:
        return self.count

    def chunks(self, numbers: Sequence[int], view: View,
               example: Tensor) -> Iterator[Chunk]:
        """Yield some of the networks in chunks.

        A chunk is called once for each window of the image, in order.

        Args:
            numbers (Sequence[int]): Numbers of the networks.
            view (View): The view that all of them see.
            example (Tensor): A window of the image in this view.
        """
        for _ in numbers:
            yield self.plain

    def base(self) -> Chunk:
        """The original network as a chunk; it may reuse the shared trunk."""
        return self.plain

    def plain(self, images: Tensor) -> Tensor:
        """Outputs ``[1, B, C, H, W]`` of one pass of the model."""
        return self.forward(images)[None]


class Posterior:
    """A set of K networks that predict together for one model.

    A posterior is attached once to its model. It does not change the model,
    so several posteriors can be attached to one model.

    Args:
        views (dict, optional): See :func:`make_views`. Each network takes
            one of them, in turn. Defaults to the unchanged image.
        tolerance (float, optional): Run no more networks for an image once
            the standard error of its mean probability, averaged over pixels,
            is below this. It is checked after all members and views were
            used. Defaults to None: all networks run.
        precision (str): ``'bfloat16'`` runs the draws in mixed precision.
            Class maps of ``prediction='centre'`` and ``'base'`` stay
            float32, and so do all statistics. Defaults to ``'float32'``.

    Attributes:
        members (list[dict]): Norm tensors of each member by state-dict name.
        temperatures (dict): Temperatures fitted for these members, by
            ``prediction``.
        thresholds (dict): Thresholds chosen for these members, by score.
        guarantees (list[Guarantee]): Guarantees calibrated for these weights.
    """

    # Whether member files can be loaded.
    takes_members = False
    # The kinds of members in these files, see `kind` in their metadata; None
    # are trained members.
    member_kinds: tuple[Optional[str], ...] = (None, )
    # Whether there is anything to fine-tune.
    trains = False
    # The default of the segmentor's `prediction`.
    prediction = 'posterior_mean'
    # Level of the noise and the layers that have it, as in the config.
    alpha: Optional[float] = None
    scope: Union[None, str, Sequence[str]] = None
    # Kind of the noise of a training pass; None for no noise.
    noise: Optional[str] = None
    # Member files that the config names.
    member_files: Optional[Sequence[str]] = None
    # Seed of the draws; None for posteriors without any.
    seed: Any = None
    # Whether its members are students.
    is_student = False
    # Networks in one pass; None chooses by device, memory and image size.
    draws_per_pass: Optional[int] = None

    model: 'BayesianSegmentor'

    def __init__(self,
                 views: Optional[dict] = None,
                 tolerance: Optional[float] = None,
                 precision: str = 'float32') -> None:
        self.views = views
        self.tolerance = tolerance
        self.precision = precision
        Posterior.check(self)
        self.members: list[dict[str, Tensor]] = []
        self.temperatures: dict[str, float] = {}
        self.thresholds: dict[str, float] = {}
        self.guarantees: list[Guarantee] = []

    @property
    def views(self) -> list[View]:
        """The views that networks take, in turn."""
        return self._views

    @views.setter
    def views(self, views: Any) -> None:
        """Set views, from a config or as a list of :class:`View`."""
        are_made = isinstance(views, list) and bool(views)
        self._views = views if are_made else make_views(views)

    def check(self) -> None:
        """Raise ValueError for a setting that cannot be used.

        It is called before every answer, too, because settings may change.
        """
        is_number = isinstance(self.tolerance, (int, float))
        if self.tolerance is not None and not (
                is_number and self.tolerance > 0):
            raise ValueError(f'tolerance={self.tolerance!r} must be positive, '
                             'such as 0.01, or None to use all draws.')
        one_of('precision', self.precision, PRECISIONS)

    def attach(self, model: 'BayesianSegmentor') -> None:
        """Set the model; called in the segmentor's constructor."""
        self.model = model

    def __len__(self) -> int:
        """How many networks there are."""
        raise NotImplementedError

    @property
    def is_base(self) -> bool:
        """Whether every network has the weights of the model."""
        return False

    @property
    def is_plain(self) -> bool:
        """Whether the only network is the model, in float32."""
        return (self.is_base and len(self.views) == 1
                and self.precision == 'float32')

    @property
    def gives_base(self) -> bool:
        """Whether its pass also gives the output of the original network."""
        return False

    @property
    def in_scope(self) -> list[str]:
        """Names of the layers that have noise."""
        return []

    @property
    def noise_settings(self) -> str:
        """The settings that fitted numbers depend on, as text."""
        return self.view_settings if len(self.views) > 1 else 'no noise'

    @property
    def view_settings(self) -> str:
        """The views as text, such as 'views x1 x1 horizontal'."""
        return 'views ' + ' '.join(map(str, self.views))

    @property
    def answer_settings(self) -> str:
        """All settings that an answer depends on, as text.

        A guarantee holds for exactly these.
        """
        parts = [f'{type(self).__name__} of {len(self)} networks',
                 self.noise_settings]
        if self.view_settings not in self.noise_settings:
            parts.append(self.view_settings)
        if self.tolerance is not None:
            parts.append(f'tolerance {self.tolerance:g}')
        return ', '.join([*parts, self.precision])

    def weights(self) -> Sequence[dict[str, Tensor]]:
        """The weights of the networks that differ from the model's."""
        return self.members

    def alphas(self) -> dict[str, float]:
        """Noise level of the layers that have noise, by name."""
        return {}

    def set_members(self, members: list[dict[str, Tensor]]) -> None:
        """Replace the members; an empty list is the model itself."""
        raise ValueError(f'{type(self).__name__} has no members; use '
                         'BNLPosterior.')

    def make_networks(self, forward: Forward) -> Networks:
        """All K networks."""
        return Networks(forward, len(self))

    def observe(self, statistics: StreamingStatistics,
                outputs: Tensor) -> None:
        """Add the outputs of n networks for an image, ``[n, C, H, W]``."""
        statistics.update(self.model.to_logits(outputs))

    def noise_free(self) -> 'Posterior':
        """The posterior without noise: one network for each member."""
        posterior = DeterministicPosterior()
        posterior.attach(self.model)
        return posterior

    def views_of(self, count: int) -> list[View]:
        """The view of each of the first ``count`` networks."""
        return assign_views(count, self.views, max(1, len(self.members)))

    def rounds(self, count: int) -> list[range]:
        """Groups of networks; the tolerance is checked after each."""
        if self.tolerance is None:
            return [range(count)]
        step = max(2, len(self.members), len(self.views))
        return [range(start, min(start + step, count))
                for start in range(0, count, step)]

    def autocast(self, device: torch.device) -> AbstractContextManager:
        """The context in which draws run."""
        if self.precision == 'float32':
            # Keeps the context of a test in mixed precision.
            return nullcontext()
        return torch.autocast(device.type, torch.bfloat16)


def exact(posterior: Posterior) -> Posterior:
    """A copy that runs all networks, in float32."""
    posterior = copy.copy(posterior)
    posterior.tolerance, posterior.precision = None, 'float32'
    return posterior


@MODELS.register_module()
class DeterministicPosterior(Posterior):
    """The trained network alone, a baseline.

    With several ``views`` it is test-time augmentation.
    """

    def __len__(self) -> int:
        return len(self.views)

    @property
    def is_base(self) -> bool:
        """Always True: the networks differ only in their views."""
        return True

    def noise_free(self) -> Posterior:
        """The posterior itself, in float32: it has no noise."""
        return exact(self)


@MODELS.register_module()
class TTAPosterior(DeterministicPosterior):
    """Test-time augmentation: the network on several views of the image.

    Args:
        flips (Sequence[str]): Some of ``'horizontal'``, ``'vertical'``.
            Defaults to ``('horizontal', )``.
        scales (Sequence[float]): Sizes besides 1. Defaults to none.
    """

    def __init__(self,
                 flips: Sequence[str] = ('horizontal', ),
                 scales: Sequence[float] = ()) -> None:
        super().__init__(dict(flips=flips, scales=scales))
