"""Count the images and labels of a config's datasets; find broken files."""
from abnn_mmseg.cli.main import run_command

if __name__ == '__main__':
    run_command('check-dataset')
