"""Posteriors: each yields the networks that answer for one model."""
from .bank import BNLPosterior
from .base import DeterministicPosterior, Posterior

__all__ = ['BNLPosterior', 'DeterministicPosterior', 'Posterior']
