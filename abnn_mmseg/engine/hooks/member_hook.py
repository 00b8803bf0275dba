"""A hook that saves only norms and makes training repeatable."""
from pathlib import Path
from typing import Optional

import torch
from mmengine.dist import get_rank
from mmengine.hooks import Hook
from mmengine.runner import EpochBasedTrainLoop, Runner
from mmseg.registry import HOOKS

from abnn_mmseg.compat import loaded_from
from abnn_mmseg.engine.runners import bare_model
from abnn_mmseg.models.bayesian_norm import bayesian_layers
from abnn_mmseg.utils.checkpoints import is_prior


@HOOKS.register_module()
class MemberHook(Hook):
    """Saves only the norms, and seeds every training step.

    Checkpoints hold only the norms; the other weights are those of the base.
    The noise of a step depends on nothing but the seed, the step and the
    rank, so a resumed training gives the same member.

    Args:
        full_checkpoints (bool): Save the whole model instead, as mmengine
            does. Defaults to False.
    """

    # After EMAHook has put its average into the checkpoint.
    priority = 'LOWEST'

    def __init__(self, full_checkpoints: bool = False) -> None:
        self.full_checkpoints = full_checkpoints

    def before_train(self, runner: Runner) -> None:
        """Repeat a validation that was interrupted."""
        # A checkpoint is written before the validation of its iteration, so
        # that validation may be missing.
        if runner.train_loop.iter and _validates(runner):
            runner.val_loop.run()

    def before_train_iter(self,
                          runner: Runner,
                          batch_idx: int,
                          data_batch: Optional[dict] = None) -> None:
        """Seed the noise of this step."""
        step = runner.iter * 1009 + get_rank()
        torch.manual_seed(runner.seed * 1_000_003 + step)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Remove all but the norms from a checkpoint."""
        if self.full_checkpoints:
            return
        model = bare_model(runner.model)
        for key in ('state_dict', 'ema_state_dict'):
            if key in checkpoint:
                checkpoint[key] = only_norms(model, checkpoint[key])

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Fill in what a checkpoint lacks from the model."""
        own = bare_model(runner.model).state_dict()
        state = checkpoint.get('state_dict', checkpoint)
        checkpoint['state_dict'] = {**own, **state}
        if path := loaded_from(runner):
            _follow(checkpoint, Path(path).parent)


def _validates(runner: Runner) -> bool:
    """Whether mmengine's loop validates after the step just done."""
    loop = runner.train_loop
    by_epoch = isinstance(loop, EpochBasedTrainLoop)
    done, last = ((loop.epoch, loop.max_epochs) if by_epoch else
                  (loop.iter, loop.max_iters))
    return (runner.val_loop is not None and done >= loop.val_begin
            and (done % loop.val_interval == 0 or done == last))


def _follow(checkpoint: dict, folder: Path) -> None:
    """Set stored paths of checkpoints to this folder, which may have moved."""
    known = checkpoint.get('message_hub', {}).get('runtime_info', {})
    for name, path in known.items():
        if name.startswith(('last_ckpt', 'best_ckpt')):
            known[name] = str(folder / Path(path).name)


def only_norms(model, state: dict) -> dict:
    """The entries of a state dict that belong to norms or to the prior."""
    prefixes = tuple(f'{name}.' for name in bayesian_layers(model))
    return {
        key: value
        for key, value in state.items()
        if key.removeprefix('module.').startswith(prefixes)
        or is_prior(key) or key == 'steps'
    }
