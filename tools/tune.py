"""Choose alpha, scope and learning rate on your own validation images."""
from abnn_mmseg.cli.main import run_command

if __name__ == '__main__':
    run_command('tune')
