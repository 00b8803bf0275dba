"""Make a student: the maps of all networks of a posterior in one pass."""
from abnn_mmseg.cli.main import run_command

if __name__ == '__main__':
    run_command('distill')
