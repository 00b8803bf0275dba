"""List, merge, average, verify, calibrate, export and import members."""
from abnn_mmseg.cli.main import run_command

if __name__ == '__main__':
    run_command('members')
