"""Calibrate a promise on labelled images, and store it with the members."""
from abnn_mmseg.cli.main import run_command

if __name__ == '__main__':
    run_command('certify')
