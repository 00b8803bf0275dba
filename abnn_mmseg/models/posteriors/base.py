"""The one interface of every posterior: it yields networks."""
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Callable, Optional

from mmseg.registry import MODELS
from torch import Tensor

from abnn_mmseg.models.posteriors.views import make_views

if TYPE_CHECKING:
    from abnn_mmseg.models.segmentor import BayesianSegmentor

# From images [B, 3, H, W] to logits [B, C, H, W]: the model's own pass.
Forward = Callable[[Tensor], Tensor]
# From images to the logits [n, B, C, H, W] of n networks.
Networks = Callable[[Tensor], Tensor]


class Posterior:
    """K networks that answer for one model.

    A posterior is attached once to the model whose networks it holds. Asked
    for :meth:`networks`, it yields them in chunks of n: functions that can
    be called on any number of images or windows until the next chunk.

    Args:
        views (dict, optional): Arguments of :func:`make_views`: each network
            sees each image in all of these ways (test-time augmentation).
            Defaults to None, as it is.
    """

    model: 'BayesianSegmentor'

    def __init__(self, views: Optional[dict] = None) -> None:
        views = {'flips': ()} if views is None else views
        if not isinstance(views, dict) or set(views) - {'flips', 'scales'}:
            raise ValueError(
                f'views={views!r} of the posterior; write '
                "views=dict(flips=('horizontal', ), scales=(0.75, )), or "
                'None for the image as it is.')
        self.views = make_views(**views)

    def attach(self, model: 'BayesianSegmentor') -> None:
        """Get to know the model; called in the segmentor's constructor."""
        self.model = model

    def __len__(self) -> int:
        """How many networks there are."""
        return 1

    @property
    def is_network(self) -> bool:
        """Whether the only network is the attached model as it stands."""
        return False

    @property
    def is_model(self) -> bool:
        """Whether that network sees images just as the model would."""
        return self.is_network and len(self.views) == 1

    def networks(self, forward: Forward, inputs: Tensor) -> Iterator[Networks]:
        """Yield all K networks, chunk by chunk.

        Args:
            forward (Callable): The model's deterministic pass.
            inputs (Tensor): Images of the size the networks will see.
        """
        raise NotImplementedError

    def centre(self, forward: Forward, inputs: Tensor) -> Iterator[Networks]:
        """Yield the noise-free networks only."""
        yield lambda images: forward(images)[None]


@MODELS.register_module()
class DeterministicPosterior(Posterior):
    """The trained network alone: the baseline of every comparison."""

    @property
    def is_network(self) -> bool:
        return True

    def networks(self, forward: Forward, inputs: Tensor) -> Iterator[Networks]:
        return self.centre(forward, inputs)


@MODELS.register_module()
class TTAPosterior(DeterministicPosterior):
    """Test-time augmentation: the network on several views of the image.

    Args:
        flips (Sequence[str]): Of ``'horizontal'`` and ``'vertical'``.
            Defaults to ``('horizontal', )``.
        scales (Sequence[float]): Sizes besides 1. Defaults to none.
    """

    def __init__(self,
                 flips: Sequence[str] = ('horizontal', ),
                 scales: Sequence[float] = ()) -> None:
        super().__init__(dict(flips=flips, scales=scales))
