"""Registered loops: train all members of a config, or distil a student."""
import copy
from pathlib import Path

from mmengine.config import Config
from mmengine.runner import Runner
from mmseg.registry import LOOPS
from torch import nn

from abnn_mmseg.compat import BareLoop, forget_checkpoints
from abnn_mmseg.engine.base_network import check_base
from abnn_mmseg.engine.distiller import Distiller
from abnn_mmseg.engine.runners import bare_model
from abnn_mmseg.engine.trainer import MemberTrainer
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.checkpoints import safe_globals


class JobLoop(BareLoop):
    """A training loop that trains with runners of its own.

    Args:
        runner (Runner): The runner whose config describes the job.
        dataloader (dict): Config of the training dataloader.
    """

    iter = 0
    epoch = 0
    max_epochs = 1
    max_iters = 1
    val_interval = 1000
    val_begin = 1

    def __init__(self, runner: Runner, dataloader: dict) -> None:
        check_base(runner.cfg)
        super().__init__(runner, dataloader)
        # The runners of the job load and resume checkpoints themselves.
        forget_checkpoints(runner)

    def run(self) -> nn.Module:
        """Do the unfinished part of the job; return the model."""
        cfg = copy.deepcopy(self.runner.cfg)
        cfg.work_dir = self.runner.work_dir
        with safe_globals():
            self.do(cfg, bare_model(self.runner.model))
        return self.runner.model

    def do(self, cfg: Config, model: BayesianSegmentor) -> None:
        """Do the job of a config with its model."""
        raise NotImplementedError


@LOOPS.register_module()
class MemberTrainLoop(JobLoop):
    """Trains the members of a config, one after the other, from its base.

    With it, mmseg's own ``tools/train.py`` trains members, too::

        load_from = 'my_checkpoint.pth'
        train_cfg = dict(type='MemberTrainLoop', members=3, max_iters=800)

    Each member has a runner and a folder of its own, and ``members.pth`` in
    the work folder holds all of them. ``--resume`` keeps finished members and
    resumes the unfinished one.

    Args:
        runner (Runner): The runner whose config describes the members.
        dataloader (dict): Config of the training dataloader.
        members (int): Number of members. Defaults to 3.
        **loop: Arguments of the loop that trains one member: mmengine's
            ``IterBasedTrainLoop``, or ``EpochBasedTrainLoop`` for
            ``max_epochs``.
    """

    def __init__(self, runner: Runner, dataloader: dict, members: int = 3,
                 **loop) -> None:
        super().__init__(runner, dataloader)
        self.members = members
        self.max_epochs = loop.get('max_epochs', 1)
        self.max_iters = loop.get('max_iters', self.max_epochs)
        self.val_interval = loop.get('val_interval', 1000)
        self.val_begin = loop.get('val_begin', 1)

    def do(self, cfg: Config, model: BayesianSegmentor) -> None:
        """Train the missing members, and say how a test loads them."""
        MemberTrainer(cfg, model=model).run()
        members = Path(cfg.work_dir) / 'members.pth'
        self.runner.logger.info(
            f"Members: {members}; with members='{members}' in the config's "
            'model.posterior, all tools load them.')


@LOOPS.register_module()
class DistillTrainLoop(JobLoop):
    """Distils the posterior of a config into a student.

    With it, mmseg's own ``tools/train.py`` does what ``abnn distill`` does::

        load_from = 'my_checkpoint.pth'
        model = dict(posterior=dict(members='members.pth'))
        train_cfg = dict(type='DistillTrainLoop', max_iters=400)

    The student is ``student.pth`` in the work folder. ``--resume`` resumes
    an unfinished one.

    Args:
        runner (Runner): The runner whose config describes the teacher.
        dataloader (dict): Config of the training dataloader.
        **options: See :class:`Distiller`.
    """

    def __init__(self, runner: Runner, dataloader: dict, **options) -> None:
        super().__init__(runner, dataloader)
        self.options = options
        self.max_iters = options.get('max_iters', 1)

    def do(self, cfg: Config, model: BayesianSegmentor) -> None:
        """Distil unless the student is finished."""
        Distiller(cfg, model, **self.options).run()
