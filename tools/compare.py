"""Compare methods on the same images: one table, one JSON, one figure."""
from abnn_mmseg.cli.main import run_command

if __name__ == '__main__':
    run_command('compare')
