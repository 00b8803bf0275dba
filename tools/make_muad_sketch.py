"""Draw a MUAD-sketch: streets in MUAD's folders, names and ids."""
from abnn_mmseg.cli.main import run_command

if __name__ == '__main__':
    run_command('make-muad-sketch')
