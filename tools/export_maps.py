"""Export predictions and uncertainty maps of images to files or a page."""
from abnn_mmseg.cli.main import run_command

if __name__ == '__main__':
    run_command('export')
