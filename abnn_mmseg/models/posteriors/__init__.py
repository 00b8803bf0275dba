"""Posteriors: sets of networks that predict together, one class each."""
from abnn_mmseg.models.posteriors.bank import BNLPosterior
from abnn_mmseg.models.posteriors.base import (
    DeterministicPosterior,
    Posterior,
    TTAPosterior,
)
from abnn_mmseg.models.posteriors.dropout import DropoutPosterior
from abnn_mmseg.models.posteriors.ensemble import EnsemblePosterior

__all__ = [
    'BNLPosterior', 'DeterministicPosterior', 'DropoutPosterior',
    'EnsemblePosterior', 'Posterior', 'TTAPosterior'
]
