"""``python -m abnn_mmseg`` is ``abnn``, also for ``torchrun -m``."""
from abnn_mmseg.cli.main import main

if __name__ == '__main__':
    main()
