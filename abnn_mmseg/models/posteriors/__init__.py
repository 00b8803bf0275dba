"""Posteriors: sets of networks that predict together."""
from abnn_mmseg.models.posteriors.abnn import BNLPosterior
from abnn_mmseg.models.posteriors.bank import BankPosterior
from abnn_mmseg.models.posteriors.base import (
    DeterministicPosterior,
    Posterior,
    TTAPosterior,
)
from abnn_mmseg.models.posteriors.distilled import DistilledPosterior
from abnn_mmseg.models.posteriors.dropout import DropoutPosterior
from abnn_mmseg.models.posteriors.ensemble import EnsemblePosterior
from abnn_mmseg.models.posteriors.gaussian import (
    LaplacePosterior,
    SWAGPosterior,
)
from abnn_mmseg.models.posteriors.sampled import SampledPosterior

__all__ = [
    'BNLPosterior', 'BankPosterior', 'DeterministicPosterior',
    'DistilledPosterior', 'DropoutPosterior', 'EnsemblePosterior',
    'LaplacePosterior', 'Posterior', 'SWAGPosterior', 'SampledPosterior',
    'TTAPosterior'
]
