"""Posteriors: each yields the networks that answer for one model."""
from .bank import BNLPosterior
from .base import DeterministicPosterior, Posterior, TTAPosterior
from .dropout import DropoutPosterior
from .ensemble import EnsemblePosterior

__all__ = [
    'BNLPosterior', 'DeterministicPosterior', 'DropoutPosterior',
    'EnsemblePosterior', 'Posterior', 'TTAPosterior'
]
