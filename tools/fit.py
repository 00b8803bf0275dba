"""Fit a posterior over the norm parameters of a base: Laplace, SWAG, HMC."""
from abnn_mmseg.cli.main import run_command

if __name__ == '__main__':
    run_command('fit')
