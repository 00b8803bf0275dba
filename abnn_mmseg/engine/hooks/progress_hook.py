"""A hook that logs the progress of training all members."""
import time
from datetime import timedelta
from typing import Optional

from mmengine.hooks import Hook
from mmengine.runner import Runner
from mmseg.registry import HOOKS


@HOOKS.register_module()
class ProgressHook(Hook):
    """Logs the finished share and the time left of training all members.

    Args:
        what (str): Name of what trains, such as 'Member 2'.
        done (int): Number of members trained before. Defaults to 0.
        count (int): Number of members to train. Defaults to 1.
        interval (int): Iterations between two lines; a short training has
            ten lines. Defaults to 50.
    """

    priority = 'VERY_LOW'

    def __init__(self, what: str, done: int = 0, count: int = 1,
                 interval: int = 50) -> None:
        self.what = f'{what} ({done + 1} of {count})' if count > 1 else what
        self.done = done
        self.count = count
        self.interval = interval

    def before_train(self, runner: Runner) -> None:
        """Start the clock."""
        self.start, self.first = time.monotonic(), runner.iter
        self.interval = max(1, min(self.interval, runner.max_iters // 10))
        start = f'continues at iteration {self.first}' if self.first else (
            'starts')
        runner.logger.info(
            f'{self.what} {start}; log and checkpoints: {runner.work_dir}')

    def after_train_iter(self,
                         runner: Runner,
                         batch_idx: int,
                         data_batch: Optional[dict] = None,
                         outputs: Optional[dict] = None) -> None:
        """Log the progress at every interval."""
        step, last = runner.iter + 1, runner.max_iters
        if not self.every_n_train_iters(runner, self.interval) and (
                step < last):
            return
        seconds = (time.monotonic() - self.start) / (step - self.first)
        remaining = (self.count - self.done) * last - step
        share = 100 * (self.done * last + step) / (self.count * last)
        left = timedelta(seconds=round(seconds * remaining))
        runner.logger.info(
            f'{self.what}, iteration {step} of {last}: {share:.0f} % of all, '
            f'{left} of training left.')
