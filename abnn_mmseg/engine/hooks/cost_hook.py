"""A hook that stores the training time in checkpoints."""
import time
from typing import Optional

from mmengine.device import get_device
from mmengine.hooks import Hook
from mmengine.runner import Runner
from mmseg.registry import HOOKS

KEY = 'training_seconds'


@HOOKS.register_module()
class CostHook(Hook):
    """Counts the seconds of training, without validation, over all resumes.

    They are in the ``meta`` of each checkpoint, as ``training_seconds``. On a
    CPU it is the time of the processor, which does not depend on other
    programs.
    """

    priority = 'VERY_LOW'

    def __init__(self) -> None:
        self.seconds = 0.
        self.clock = (
            time.process_time if get_device() == 'cpu' else time.monotonic)
        self.last = self.clock()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Continue from the seconds in a checkpoint."""
        if runner.cfg.get('resume'):
            self.seconds = checkpoint.get('meta', {}).get(KEY, 0.)

    def before_train(self, runner: Runner) -> None:
        """Start the clock."""
        self.last = self.clock()

    def after_train_iter(self,
                         runner: Runner,
                         batch_idx: int,
                         data_batch: Optional[dict] = None,
                         outputs: Optional[dict] = None) -> None:
        """Add the time since the last iteration."""
        now = self.clock()
        self.seconds += now - self.last
        self.last = now

    def after_val(self, runner: Runner) -> None:
        """Leave out the time of a validation."""
        self.last = self.clock()

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Store the seconds in the checkpoint."""
        checkpoint['meta'][KEY] = self.seconds
