"""Bayesian layers, posteriors, segmentors and losses."""
from abnn_mmseg.models.bayesian_norm import BayesianNorm
from abnn_mmseg.models.bnl import BNL, BNLGN, BNLIN, BNLLN
from abnn_mmseg.models.convert import ConversionReport, convert_norms
from abnn_mmseg.models.losses import RandomPriorCrossEntropyLoss
from abnn_mmseg.models.posteriors import (
    BNLPosterior,
    DeterministicPosterior,
    DistilledPosterior,
    DropoutPosterior,
    EnsemblePosterior,
    Posterior,
    TTAPosterior,
)
from abnn_mmseg.models.segmentor import (
    BayesianCascadeEncoderDecoder,
    BayesianEncoderDecoder,
    BayesianMultimodalEncoderDecoder,
)
from abnn_mmseg.models.tta import BayesianTTAModel

__all__ = [
    'BNL', 'BNLGN', 'BNLIN', 'BNLLN', 'BNLPosterior',
    'BayesianCascadeEncoderDecoder', 'BayesianEncoderDecoder',
    'BayesianMultimodalEncoderDecoder', 'BayesianNorm', 'BayesianTTAModel',
    'ConversionReport', 'DeterministicPosterior', 'DistilledPosterior',
    'DropoutPosterior', 'EnsemblePosterior', 'Posterior',
    'RandomPriorCrossEntropyLoss', 'TTAPosterior', 'convert_norms'
]
