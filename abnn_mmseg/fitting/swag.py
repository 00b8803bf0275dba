r"""SWAG: a Gaussian by the trajectory of the norms (Maddox et al., 2019).

The norms are trained further at a constant rate, by the loss of the config
without a random class prior. A snapshot theta_i is taken every few iterations.
The Gaussian has

    mean_n = 1/n sum theta_i
    diagonal = 1/n sum theta_i^2 - mean_n^2
    D = theta_i - mean_i, of the last R snapshots

with mean_i the mean of the first i snapshots. Running statistics of batch
norms stay those of the base.
"""
import time
from pathlib import Path
from typing import Any, Optional

import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import Runner
from mmseg.registry import HOOKS
from torch import Tensor

from abnn_mmseg.engine.hooks import ProgressHook
from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.engine.runners import (
    WITHOUT_TESTS,
    bare_model,
    train_and_close,
    training_runner,
)
from abnn_mmseg.fitting.fitted import (
    fit_settings,
    fitted_config,
    layers_to_fit,
    save_fit,
    split_vector,
)
from abnn_mmseg.fitting.likelihood import norm_parameters
from abnn_mmseg.members.images import Images
from abnn_mmseg.models.posteriors.gaussian import DIAGONAL, FACTOR
from abnn_mmseg.models.scopes import Scope
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.checkpoints import safe_globals
from abnn_mmseg.utils.files import claimed, sweep

HOOKS_OF_FIT = ('AuditHook', 'StabilityHook', 'MemberHook')


class Moments:
    """Mean, second moment and last deviations of snapshots.

    Args:
        rank (int): R, deviations to keep.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.count = 0
        self.mean = torch.zeros(0, dtype=torch.float64)
        self.square = torch.zeros(0, dtype=torch.float64)
        self.deviations: list[Tensor] = []

    def add(self, theta: Tensor) -> None:
        """Take in a snapshot."""
        if not self.count:
            self.mean = torch.zeros_like(theta)
            self.square = torch.zeros_like(theta)
        self.count += 1
        self.mean = self.mean + (theta - self.mean) / self.count
        self.square = self.square + (
            theta.square() - self.square) / self.count
        self.deviations.append((theta - self.mean).float())
        self.deviations = self.deviations[-self.rank:]

    def gaussian(self) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, diagonal and factor F: the covariance is diag + F^T F."""
        diagonal = (self.square - self.mean.square()).clamp_min(0)
        rows = torch.stack(self.deviations)
        return self.mean, diagonal / 2, rows / (
            2 * max(1, len(rows) - 1))**0.5

    def state_dict(self) -> dict[str, Any]:
        """The moments so far."""
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from stored moments."""
        vars(self).update(state)


@HOOKS.register_module()
class SWAGHook(Hook):
    """Collects snapshots of the norms while they train.

    The moments of the snapshots are stored in the runner's checkpoints.

    Args:
        begin (int): Iterations before the first snapshot.
        every (int): Iterations between two snapshots.
        rank (int): Deviations to keep.
    """

    # After the optimizer, before checkpoints are written.
    priority = 'ABOVE_NORMAL'

    def __init__(self, begin: int, every: int, rank: int) -> None:
        self.begin = begin
        self.every = every
        self.moments = Moments(rank)

    def after_train_iter(self,
                         runner: Runner,
                         batch_idx: int,
                         data_batch: Optional[dict] = None,
                         outputs: Optional[dict] = None) -> None:
        """Take a snapshot if one is due."""
        done = runner.iter + 1 - self.begin
        if done > 0 and done % self.every == 0:
            model = bare_model(runner.model)
            parameters = norm_parameters(model, layers_to_fit(model))
            self.moments.add(torch.cat([
                p.detach().double().cpu().flatten()
                for p in parameters.values()]))

    def before_save_checkpoint(self, runner: Runner,
                               checkpoint: dict) -> None:
        """Store the moments in the checkpoint."""
        checkpoint['swag'] = self.moments.state_dict()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Continue from the moments of the checkpoint."""
        if 'swag' in checkpoint:
            self.moments.load_state_dict(checkpoint['swag'])


def fit_swag(cfg: Config, base: str, out: str, folder: str,
             iterations: int = 200, every: int = 5, lr: float = 0.01,
             rank: int = 20, scope: Scope = 'all', seed: int = 0,
             device: Optional[str] = None) -> dict:
    """Fit a Gaussian to the trajectory of the norms; return the report.

    Args:
        cfg (Config): Config of the base, or of its ABNN.
        base (str): Checkpoint of the base.
        out (str): The member file to write, for ``SWAGPosterior``.
        folder (str): Work folder; an interrupted training is resumed.
        iterations (int): Iterations of the training. No snapshots are taken
            in the first quarter. Defaults to 200.
        every (int): Iterations between snapshots. Defaults to 5.
        lr (float): Constant learning rate of SGD. Defaults to 0.01.
        rank (int): Deviations to keep. Defaults to 20.
        scope (str | Sequence[str]): Layers whose norms vary.
        seed (int): Seed of the training.
        device (str, optional): Device of the computation.
    """
    begin = iterations // 4
    if every < 1 or (iterations - begin) // every < 2 or rank < 1:
        raise ValueError(
            f'{iterations} iterations with a snapshot every {every} are too '
            'few for a covariance; train for more, so that two snapshots '
            'fall into the last three quarters.')
    start = time.monotonic()
    cfg = swag_config(cfg, scope, iterations, lr)
    model = build_segmentor(cfg, [base], device)
    # Raises ValueError if there is no image to train on.
    Images(model, cfg.train_dataloader.dataset)
    hook = dict(type='SWAGHook', begin=begin, every=every, rank=rank)
    moments = _train(cfg, model, Path(folder) / 'training', hook, seed)
    mean, diagonal, rows = moments.gaussian()
    like = norm_parameters(model, layers_to_fit(model))
    state = split_vector(mean, like)
    for prefix, values in ((DIAGONAL, diagonal), (FACTOR, rows)):
        state.update({prefix + name: value for name, value in
                      split_vector(values, like).items()})
    report = dict(
        iterations=iterations, snapshots=moments.count, rank=len(rows),
        lr=lr, mean_std=float((diagonal + rows.double().square().sum(0)
                               ).sqrt().mean()),
        seconds=time.monotonic() - start)
    meta = dict(kind='swag', seed=seed, scope=scope, **{
        k: report[k] for k in ('iterations', 'snapshots', 'lr', 'seconds')})
    save_fit(out, model, [state], [meta], report)
    return report


def swag_config(cfg: Config, scope: Scope, iterations: int,
                lr: float) -> Config:
    """A config that trains the norms at a constant rate."""
    cfg = fitted_config(cfg, 'SWAGPosterior', scope)
    for head in ('decode_head', 'auxiliary_head'):
        heads = cfg.model.get(head) or []
        for one in heads if isinstance(heads, list) else [heads]:
            plain_loss(one)
    cfg.optim_wrapper = dict(type='OptimWrapper', optimizer=dict(
        type='SGD', lr=lr, momentum=0.9))
    cfg.param_scheduler = []
    cfg.train_cfg = dict(type='IterBasedTrainLoop', max_iters=iterations)
    cfg.default_hooks.update(checkpoint=dict(
        type='CheckpointHook', by_epoch=False, interval=50,
        max_keep_ckpts=1))
    cfg.default_hooks.pop('visualization', None)
    return cfg


def plain_loss(head: dict) -> None:
    """Remove the random class prior from the loss of a head."""
    losses = head.get('loss_decode') or {}
    for loss in losses if isinstance(losses, list) else [losses]:
        if loss.get('type') == 'RandomPriorCrossEntropyLoss':
            loss['rule'] = 'none'


def _train(cfg: Config, model: BayesianSegmentor, folder: Path, hook: dict,
           seed: int) -> Moments:
    """Run the training; resume an interrupted one."""
    sweep(folder)
    with claimed(folder), safe_globals():
        settings = dict(fit_settings(cfg, model), seed=seed, hook=hook)
        runner = training_runner(
            model, cfg, folder, cfg.train_dataloader, seed, settings, True,
            custom_hooks=[hook, *(dict(type=t) for t in HOOKS_OF_FIT)],
            **WITHOUT_TESTS)
        train_and_close(runner, ProgressHook('SWAG'))
    [found] = [h for h in runner.hooks if isinstance(h, SWAGHook)]
    return found.moments
