"""Samples of norm parameters as networks, such as those of HMC."""

from mmseg.registry import MODELS

from abnn_mmseg.models.posteriors.bank import BankPosterior


@MODELS.register_module()
class SampledPosterior(BankPosterior):
    """K networks with norms of their own and without noise.

    The norms are the members of a file: samples of ``abnn fit hmc``, or
    trained members.

    Args:
        **kwargs: ``scope``, ``members`` and ``networks``, see
            :class:`BankPosterior`; how to run them, see
            :class:`ForkingPosterior`.
    """

    trains = False
    member_kinds: tuple = (None, 'hmc')

    @property
    def noise_settings(self) -> str:
        """The settings that the networks depend on, as text."""
        return (f'scope {self.scope!r}, networks {self.networks}, '
                f'{self.view_settings}')

    def alphas(self) -> dict[str, float]:
        """No noise in any layer of the scope."""
        return dict.fromkeys(self.in_scope, 0.)

    @property
    def is_base(self) -> bool:
        """Whether all networks are equal to the model."""
        return not self._changed()

    def _forking(self) -> list[str]:
        """Layers in which a network differs from the model."""
        return [name for name in self.layers if name in self._changed()]
