"""Layers, posteriors, segmentors and losses."""
from .bnl import BNL, BNLGN, BNLIN, BNLLN, BayesianNorm
from .convert import ConversionReport, convert_norms
from .losses import RandomPriorCrossEntropyLoss
from .posteriors import (
    BNLPosterior,
    DeterministicPosterior,
    DropoutPosterior,
    EnsemblePosterior,
    Posterior,
    TTAPosterior,
)
from .segmentor import (
    BayesianCascadeEncoderDecoder,
    BayesianEncoderDecoder,
    BayesianMultimodalEncoderDecoder,
)
from .tta import BayesianTTAModel

__all__ = [
    'BNL', 'BNLGN', 'BNLIN', 'BNLLN', 'BNLPosterior',
    'BayesianCascadeEncoderDecoder', 'BayesianEncoderDecoder',
    'BayesianMultimodalEncoderDecoder', 'BayesianNorm', 'BayesianTTAModel',
    'ConversionReport', 'DeterministicPosterior', 'DropoutPosterior',
    'EnsemblePosterior', 'Posterior', 'RandomPriorCrossEntropyLoss',
    'TTAPosterior', 'convert_norms'
]
