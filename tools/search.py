"""Choose ABNN's settings on validation images; every trial is logged."""
from abnn_mmseg.cli.main import run_command

if __name__ == '__main__':
    run_command('search')
