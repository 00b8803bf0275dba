"""ABNN's posterior: members, and Gaussian noise on their gammas."""
from collections.abc import Sequence
from typing import Optional, Union, cast

from mmseg.registry import MODELS
from torch import Tensor

from abnn_mmseg.models.bayesian_norm import check_alpha
from abnn_mmseg.models.posteriors.bank import BankPosterior
from abnn_mmseg.models.posteriors.base import Forward, Networks
from abnn_mmseg.models.posteriors.draws import (
    check_draws,
    check_seed,
    draw_eps,
)
from abnn_mmseg.models.posteriors.element import ElementNetworks
from abnn_mmseg.models.scopes import Scope
from abnn_mmseg.utils.choices import one_of

NOISES = ('channel', 'element')


@MODELS.register_module()
class BNLPosterior(BankPosterior):
    """ABNN: K = M x L networks, L draws of noise on each of M members.

    Network k is draw ``k // M`` of member ``k % M``: the first M networks
    hold all members. Its gammas are

        gamma_k = gamma_m * (1 + alpha * eps_ml),   eps ~ N(0, 1)

    with noise drawn once from ``seed`` on the CPU.

    All settings may be changed after construction; the next prediction uses
    them.

    Args:
        alpha (float, optional): Noise level of all layers in scope. None
            keeps the alpha of each layer's ``norm_cfg``.
        samples (int): Draws L per member. Defaults to 8.
        networks (int, optional): Use only the first of the M x L networks.
            Defaults to all.
        scope (str | Sequence[str]): The layers with noise, see
            :func:`abnn_mmseg.models.scopes.resolve`. Only norms in the scope
            train, unless the segmentor has ``finetune='all'``. Defaults to
            'all'.
        noise (str): ``'channel'``, one eps per channel, or ``'element'``,
            one per pixel as in the authors' code, for comparison. Defaults to
            ``'channel'``.
        antithetic (bool): Draw pairs (eps, -eps). Defaults to True.
        seed (int): Seed of the draws. Defaults to 0.
        members (str | Sequence[str], optional): Member files to load.
        **kwargs: See :class:`ForkingPosterior`.
    """

    def __init__(self,
                 alpha: Optional[float] = None,
                 samples: int = 8,
                 scope: Scope = 'all',
                 noise: str = 'channel',
                 antithetic: bool = True,
                 seed: int = 0,
                 members: Union[None, str, Sequence[str]] = None,
                 networks: Optional[int] = None,
                 **kwargs) -> None:
        super().__init__(scope, members, networks, **kwargs)
        self.alpha = alpha
        self.samples = samples
        self.noise = noise
        self.antithetic = antithetic
        self.seed = seed
        self._eps: tuple[tuple, dict[str, Tensor]] = ((), {})
        self.check()

    def check(self) -> None:
        """Raise ValueError for a setting that cannot be used."""
        super().check()
        check_seed(self.seed)
        one_of('noise', self.noise, NOISES)
        if self.alpha is not None:
            check_alpha(self.alpha)
        check_draws(self.samples, self.antithetic
                    and self.noise == 'channel')

    def alphas(self) -> dict[str, float]:
        """Noise level of the layers that have noise, by name."""
        return {
            name: self.every_layer[name].alpha if self.alpha is None else
            float(self.alpha) for name in self.in_scope
        }

    def __len__(self) -> int:
        every = max(1, len(self.members)) * self.draws_per_member
        return min(every, self.networks or every)

    @property
    def draws_per_member(self) -> int:
        """Draws of one member; without noise all draws are one network."""
        return self.samples if self.is_noisy else 1

    @property
    def is_noisy(self) -> bool:
        """Whether any layer that predicts has noise."""
        if self.alpha is not None:
            return self.alpha > 0
        return any(self.layers[n].alpha for n in self.in_scope
                   if n in self.layers)

    @property
    def noise_settings(self) -> str:
        """Settings of the noise and the views, as text."""
        alpha = "the layers' alpha" if self.alpha is None else (
            f'alpha {self.alpha:g}')
        parts = [alpha, f'scope {self.scope!r}', f'{self.noise} noise']
        if len(self.views) > 1:
            parts.append(self.view_settings)
        return ', '.join(parts)

    @property
    def answer_settings(self) -> str:
        """All settings of an answer, with those of the draws."""
        pairs = 'antithetic' if self.antithetic else 'independent'
        return f'{super().answer_settings}, {pairs}, seed {self.seed}'

    @property
    def is_base(self) -> bool:
        """Whether there are neither members nor noise."""
        return not self.members and not self.is_noisy

    def make_networks(self, forward: Forward) -> Networks:
        """All K networks, ready to run."""
        networks = super().make_networks(forward)
        if self.noise == 'element' and not self.is_base:
            return ElementNetworks(self, forward)
        return networks

    def noise_free(self) -> BankPosterior:
        """The posterior with alpha 0: one network for each member."""
        posterior = cast(BNLPosterior, super().noise_free())
        posterior.alpha, posterior.networks = 0., None
        if not self.members:
            posterior.views = self.views[:1]
        return posterior

    def draw(self) -> dict[str, Tensor]:
        """Noise of all layers, so draws do not depend on the scope."""
        shapes = {n: layer.weight.shape for n, layer in self.layers.items()}
        key = (tuple(shapes.items()), max(1, len(self.members)),
               self.draws_per_member, self.antithetic, self.seed)
        known, eps = self._eps
        if known != key:
            eps = draw_eps(shapes, *key[1:])
            self._eps = key, eps
        return eps
