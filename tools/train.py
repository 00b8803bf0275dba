"""Train a base network, or the ABNN members of one."""
from abnn_mmseg.cli.main import run_command

if __name__ == '__main__':
    run_command('train')
