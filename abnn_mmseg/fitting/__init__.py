"""Posteriors of norm parameters that are fitted: Laplace, SWAG, HMC."""
