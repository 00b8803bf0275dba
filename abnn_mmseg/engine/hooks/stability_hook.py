"""A hook that logs the gradients' variance and stops on NaN or inf."""
import math
from typing import Optional

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from mmseg.registry import HOOKS
from torch import Tensor


@HOOKS.register_module()
class StabilityHook(Hook):
    """Stops training when loss or parameters are NaN or inf.

    It also logs the variance of the gradients. For the gradient g of a
    parameter it is ``E[g^2] - E[g]^2``, both running means over about
    ``1 / (1 - decay)`` steps. The log has the decimal logarithm of the mean
    over all trained parameters, as ``log10_grad_variance``.

    Args:
        decay (float): Decay of the running means. Defaults to 0.95.
    """

    # Before any hook that saves or averages the updated parameters.
    priority = 'HIGH'

    def __init__(self, decay: float = 0.95) -> None:
        self.decay = decay

    def before_train(self, runner: Runner) -> None:
        """Watch every step of the optimizer."""
        self.steps = 0
        optimizer = runner.optim_wrapper.optimizer
        self.parameters: list[Tensor] = [
            p for group in optimizer.param_groups for p in group['params']
            if p.requires_grad
        ]
        self.mean = [torch.zeros_like(p) for p in self.parameters]
        self.square = [torch.zeros_like(p) for p in self.parameters]
        # After a step the gradients are gone.
        self.handle = optimizer.register_step_pre_hook(self._observe)

    def after_train(self, runner: Runner) -> None:
        """Stop watching the optimizer."""
        self.handle.remove()

    @torch.no_grad()
    def _observe(self, *_) -> None:
        self.steps += 1
        for p, mean, square in zip(self.parameters, self.mean, self.square):
            if p.grad is not None:
                mean.lerp_(p.grad, 1 - self.decay)
                square.lerp_(p.grad.square(), 1 - self.decay)

    def variance(self) -> float:
        """Mean over the parameters, with the running means' bias removed."""
        weight = 1 - self.decay**self.steps
        total = sum(
            (square / weight - (mean / weight).square()).sum()
            for mean, square in zip(self.mean, self.square))
        return float(total) / sum(p.numel() for p in self.parameters)

    def after_train_iter(self,
                         runner: Runner,
                         batch_idx: int,
                         data_batch: Optional[dict] = None,
                         outputs: Optional[dict] = None) -> None:
        """Check the loss and the parameters; log the variance."""
        assert outputs is not None
        self._check(runner, 'loss', float(outputs['loss'].detach()))
        largest = torch.stack(
            [p.detach().norm() for p in self.parameters]).max()
        self._check(runner, 'norm of the parameters', float(largest))
        if self.steps > 1:
            variance = max(self.variance(), torch.finfo(torch.float32).tiny)
            runner.message_hub.update_scalar('train/log10_grad_variance',
                                             math.log10(variance))

    @staticmethod
    def _check(runner: Runner, name: str, value: float) -> None:
        if not math.isfinite(value):
            raise FloatingPointError(
                f'the {name} is {value} at iteration {runner.iter + 1}; lower '
                'the learning rate or alpha and start this member again '
                '(--member K, without --resume, which keeps the old rate). '
                f'The last good checkpoint stays in {runner.work_dir}.')
