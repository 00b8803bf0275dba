"""Test a base network, or a base with its members, on one or more datasets."""
from abnn_mmseg.cli.main import run_command

if __name__ == '__main__':
    run_command('test')
