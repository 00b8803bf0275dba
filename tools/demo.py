"""Draw a dataset, train a base, make it Bayesian, test both, open a page."""
from abnn_mmseg.cli.main import run_command

if __name__ == '__main__':
    run_command('demo')
