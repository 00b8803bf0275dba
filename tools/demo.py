"""Draw a dataset, make a trained network Bayesian, test it, open a page."""
from abnn_mmseg.cli.main import run_command

if __name__ == '__main__':
    run_command('demo')
