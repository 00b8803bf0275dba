"""Samples of norm parameters as networks, such as those of HMC."""

from mmseg.registry import MODELS

from abnn_mmseg.models.posteriors.bank import BankPosterior


@MODELS.register_module()
class SampledPosterior(BankPosterior):
    """K networks, each with norms of its own and without noise.

    The norms are the members of a file: samples that ``abnn fit hmc`` drew
    from the posterior, or members that were trained apart.

    Args:
        **kwargs: ``scope``, ``members`` and ``networks``, see
            :class:`BankPosterior`; how to run them, see
            :class:`ForkingPosterior`.
    """

    trains = False
    member_kinds: tuple = (None, 'hmc')

    @property
    def noise_settings(self) -> str:
        """What decides on the networks, as text."""
        views = ' '.join(map(str, self.views))
        return f'scope {self.scope!r}, networks {self.networks}, views {views}'

    def alphas(self) -> dict[str, float]:
        """No noise in any layer of the scope."""
        return dict.fromkeys(self.in_scope, 0.)

    @property
    def is_base(self) -> bool:
        """Whether all networks are the model as it stands."""
        return not self._changed()

    def _forking(self) -> list[str]:
        """Only layers in which a network has a norm of its own."""
        return [name for name in self.layers if name in self._changed()]
