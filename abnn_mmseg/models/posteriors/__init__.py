"""Posteriors: each yields the networks that answer for one model."""
from .augmentation import TTAPosterior
from .bank import BNLPosterior
from .base import DeterministicPosterior, Posterior
from .dropout import DropoutPosterior
from .ensemble import EnsemblePosterior

__all__ = [
    'BNLPosterior', 'DeterministicPosterior', 'DropoutPosterior',
    'EnsemblePosterior', 'Posterior', 'TTAPosterior'
]
