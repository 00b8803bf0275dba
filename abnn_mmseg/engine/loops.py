"""A registered loop that trains all members of a config."""
import copy
from typing import Any

from mmengine.model import is_model_wrapper
from mmengine.runner import Runner
from mmseg.registry import LOOPS
from torch import nn

from abnn_mmseg.compat import BareLoop, forget_checkpoints
from abnn_mmseg.engine.trainer import MemberTrainer, check_base
from abnn_mmseg.utils.checkpoints import safe_globals


@LOOPS.register_module()
class MemberTrainLoop(BareLoop):
    """Trains the members of a config, one after the other, from its base.

    With it, mmseg's own ``tools/train.py`` does what ours does::

        load_from = 'my_checkpoint.pth'
        train_cfg = dict(type='MemberTrainLoop', members=3, max_iters=800)

    Each member has a runner and a folder of its own, and ``members.pth`` in
    the work folder holds all of them. ``--resume`` keeps finished members and
    goes on with the unfinished one.

    Args:
        runner (Runner): Whose config says what to train.
        dataloader (dict): Config of the training dataloader.
        members (int): How many members. Defaults to 3.
        **loop: Arguments of the loop that trains one member: mmengine's
            ``IterBasedTrainLoop``, or ``EpochBasedTrainLoop`` for
            ``max_epochs``.
    """

    iter = 0
    epoch = 0

    def __init__(self, runner: Runner, dataloader: dict, members: int = 3,
                 **loop) -> None:
        check_base(runner.cfg)
        super().__init__(runner, dataloader)
        self.members = members
        self.max_epochs = loop.get('max_epochs', 1)
        self.max_iters = loop.get('max_iters', self.max_epochs)
        self.val_interval = loop.get('val_interval', 1000)
        self.val_begin = loop.get('val_begin', 1)
        # The runner of each member loads and resumes.
        forget_checkpoints(runner)

    def run(self) -> nn.Module:
        """Train the missing members; return the model."""
        model: Any = self.runner.model
        cfg = copy.deepcopy(self.runner.cfg)
        cfg.work_dir = self.runner.work_dir
        with safe_globals():
            MemberTrainer(cfg, model=model.module if is_model_wrapper(
                model) else model).run()
        return model
