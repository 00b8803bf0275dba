"""MC dropout: networks with some of their channels set to zero."""
from functools import partial
from typing import TYPE_CHECKING, Optional

import numpy as np
import torch
from mmseg.registry import MODELS
from torch import Tensor, nn

from abnn_mmseg.compat import AnyDropout
from abnn_mmseg.models.architectures import DECODE_HEAD
from abnn_mmseg.models.passes import let_handle
from abnn_mmseg.models.posteriors.base import Forward, Networks
from abnn_mmseg.models.posteriors.draws import check_draws, check_seed
from abnn_mmseg.models.posteriors.forking import (
    ForkedNetworks,
    ForkingPosterior,
)
from abnn_mmseg.models.scopes import Scope, select

if TYPE_CHECKING:
    from abnn_mmseg.models.segmentor import BayesianSegmentor


@MODELS.register_module()
class DropoutPosterior(ForkingPosterior):
    """K networks, each with other dropped channels (Gal & Ghahramani).

    After module s of network k, channel c of every image is

        y * mask[k, s, c] / (1 - p),   mask ~ Bernoulli(1 - p),

    that is ``nn.Dropout2d``, with masks drawn once from ``seed`` on the CPU
    and used for every image, window and frame: a draw is a network.

    Args:
        modules (str | Sequence[str]): ``'head'``, the dropout layers that
            the decode head has; or names or patterns of modules after which
            to drop, such as ``['backbone.layer3', 'backbone.layer4']``.
            Defaults to ``'head'``.
        rate (float, optional): The probability p to drop a channel. Defaults
            to the rate of each dropout layer; other modules need a number.
        samples (int): Number K of networks. Defaults to 8.
        seed (int): Seed of the masks. Defaults to 0.
        **kwargs: See :class:`ForkingPosterior`.
    """

    def __init__(self,
                 modules: Scope = 'head',
                 rate: Optional[float] = None,
                 samples: int = 8,
                 seed: int = 0,
                 **kwargs) -> None:
        super().__init__(**kwargs)
        self.modules = modules
        self.rate = rate
        self.samples = samples
        self.seed = seed
        self._masks: dict[tuple, Tensor] = {}
        self.check()

    def check(self) -> None:
        """Raise ValueError for a setting that cannot be used."""
        super().check()
        check_draws(self.samples, paired=False)
        check_seed(self.seed)
        rate = self.rate
        if rate is not None and not (
                isinstance(rate, (int, float)) and 0 <= rate < 1):
            raise ValueError(f'rate={rate!r} of DropoutPosterior is not a '
                             'probability; write a number in 0 <= rate < 1.')

    def attach(self, model: 'BayesianSegmentor') -> None:
        """Find the modules to drop after, and their rates."""
        super().attach(model)
        self._attached = self.modules, self.rate
        sites = self._find(model)
        rates = {name: self._rate(name, site) for name, site in sites.items()}
        self.rates = {name: rate for name, rate in rates.items() if rate}
        self.sites = {name: sites[name] for name in self.rates}
        let_handle(self.sites.values())

    def _find(self, model: nn.Module) -> dict[str, nn.Module]:
        modules = dict(model.named_modules())
        layers = [n for n, m in modules.items() if isinstance(m, AnyDropout)]
        if self.modules == 'head':
            names = select(layers, DECODE_HEAD)
        else:
            names = [n for n in _tops(modules, self.modules) if n]
        if not names:
            raise ValueError(
                f'modules={self.modules!r} of DropoutPosterior matches '
                "nothing in the model; write 'head' if the decode head has "
                'a dropout_ratio, or module names such as '
                f'{", ".join(list(_tops(modules, "backbone.*"))[-3:])}.')
        return {name: modules[name] for name in names}

    def _rate(self, name: str, site: nn.Module) -> float:
        if self.rate is not None:
            return self.rate
        if isinstance(site, AnyDropout):
            return site.p
        raise ValueError(
            f'{name} is not a dropout layer, so it has no rate of its own; '
            'write rate=0.1, or another share, in DropoutPosterior.')

    def __len__(self) -> int:
        return self.samples if self.sites else len(self.views)

    @property
    def is_base(self) -> bool:
        """Whether nothing is dropped."""
        return not self.sites

    @property
    def noise_settings(self) -> str:
        """The modules and the rate, as text."""
        return f'modules {self.modules!r}, rate {self.rate}'

    @property
    def answer_settings(self) -> str:
        """All settings of an answer, with the seed of the masks."""
        return f'{super().answer_settings}, seed {self.seed}'

    def make_networks(self, forward: Forward) -> Networks:
        """All K networks, ready to run."""
        if self._attached != (self.modules, self.rate):
            self.attach(self.model)
        if not self.sites:
            return super().make_networks(forward)
        device = next(self.model.parameters()).device
        return ForkedNetworks(
            self, forward, torch.arange(self.samples, device=device),
            self._forks, self.sites.values())

    def _forks(self, number: Tensor, vmapped: bool) -> dict:
        """Handlers that run the model as one of the networks."""
        return {site: partial(self._drop, name, number)
                for name, site in self.sites.items()}

    def _drop(self, name: str, number: Tensor, forward, *args,
              **kwargs) -> Tensor:
        output = forward(*args, **kwargs)
        if not isinstance(output, Tensor) or output.dim() not in (3, 4):
            raise ValueError(
                f'{name} does not give one tensor of features, so nothing '
                'can be dropped after it; name modules inside it.')
        # Feature maps are [B, C, H, W], tokens [B, N, C].
        channel = 1 if output.dim() == 4 else 2
        mask = self.mask(name, output.shape[channel]).to(output)[number]
        shape = [1] * output.dim()
        shape[channel] = -1
        return output * mask.reshape(shape)

    def mask(self, name: str, channels: int) -> Tensor:
        """Factors of a module's channels in all networks, ``[K, C]``."""
        key = name, channels, self.samples, self.seed, self.rates[name]
        if key not in self._masks:
            site = list(self.sites).index(name)
            kept = 1 - self.rates[name]
            # torch's generator cannot be used inside torch.vmap.
            noise = np.random.default_rng([self.seed, site]).random(
                (self.samples, channels), np.float32)
            self._masks[key] = torch.from_numpy(
                (noise < kept).astype(np.float32) / np.float32(kept))
        return self._masks[key]


def _tops(modules: dict[str, nn.Module], patterns: Scope) -> dict[str, None]:
    """Names that match, without those inside another that matches."""
    names = select(modules, patterns)
    return {
        n: None for n in names
        if not any(n.startswith(f'{other}.') for other in names)
    }
