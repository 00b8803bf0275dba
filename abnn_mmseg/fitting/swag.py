r"""SWAG: a Gaussian by the trajectory of the norms (Maddox et al., 2019).

The norms go on training at a constant rate, by the loss of the config without
any random class prior. Every few iterations they are a snapshot theta_i; the
Gaussian has

    mean_n = 1/n sum theta_i
    diagonal = 1/n sum theta_i^2 - mean_n^2
    D = theta_i - mean_i, of the last R snapshots

with the running mean of that time in D. Running statistics of batch norms
stay the base's, as everywhere here.
"""
import time
from pathlib import Path
from typing import Any, Optional

import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.model import is_model_wrapper
from mmengine.runner import Runner
from mmseg.registry import HOOKS
from torch import Tensor

from abnn_mmseg.datasets.replay import replayable
from abnn_mmseg.engine.runners import build_runner, close_log, last_readable
from abnn_mmseg.engine.settings import keep_settings
from abnn_mmseg.fitting.fitted import (
    Scope,
    build_for_fit,
    fit_settings,
    fitted_config,
    layers_to_fit,
    save_fit,
    split_vector,
)
from abnn_mmseg.fitting.images import Images
from abnn_mmseg.fitting.likelihood import norm_parameters
from abnn_mmseg.models.posteriors.gaussian import DIAGONAL, FACTOR
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.checkpoints import safe_globals
from abnn_mmseg.utils.console import progress_bar
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
        """All that has been seen."""
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        vars(self).update(state)


@HOOKS.register_module()
class SWAGHook(Hook):
    """Collects the norms of a training, every few iterations.

    What it has collected is in the runner's checkpoints.

    Args:
        begin (int): Iterations before the first snapshot.
        every (int): Iterations between two.
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
        """Take a snapshot if it is time for one."""
        done = runner.iter + 1 - self.begin
        if done > 0 and done % self.every == 0:
            model = runner.model
            if is_model_wrapper(model):
                model = model.module
            parameters = norm_parameters(model, layers_to_fit(model))
            self.moments.add(torch.cat([
                p.detach().double().cpu().flatten()
                for p in parameters.values()]))

    def before_save_checkpoint(self, runner: Runner,
                               checkpoint: dict) -> None:
        """Put what has been seen into the checkpoint."""
        checkpoint['swag'] = self.moments.state_dict()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Go on from what the checkpoint has seen."""
        if 'swag' in checkpoint:
            self.moments.load_state_dict(checkpoint['swag'])


class BarHook(Hook):
    """Shows how far a training is.

    Args:
        show (Callable): Gets the number of iterations done.
    """

    def __init__(self, show) -> None:
        self.show = show

    def after_train_iter(self,
                         runner: Runner,
                         batch_idx: int,
                         data_batch: Optional[dict] = None,
                         outputs: Optional[dict] = None) -> None:
        """Move the bar."""
        self.show(runner.iter + 1)


def fit_swag(cfg: Config, base: str, out: str, folder: str,
             iterations: int = 200, every: int = 5, lr: float = 0.01,
             rank: int = 20, scope: Scope = 'all', seed: int = 0,
             device: Optional[str] = None) -> dict:
    """Fit a Gaussian to the trajectory of the norms; the report.

    Args:
        cfg (Config): Of the base, or of its ABNN.
        base (str): Its checkpoint.
        out (str): The member file to write, for ``SWAGPosterior``.
        folder (str): Of the training; it goes on where it stopped.
        iterations (int): Of the training. A quarter of them is not
            collected.
        every (int): Iterations between snapshots. Defaults to 5.
        lr (float): Rate of the SGD, which is constant. Defaults to 0.01.
        rank (int): Deviations to keep. Defaults to 20.
        scope (str | Sequence[str]): Layers whose norms vary.
        seed (int): Of the training.
        device (str, optional): Where to compute.
    """
    begin = iterations // 4
    if every < 1 or (iterations - begin) // every < 2 or rank < 1:
        raise ValueError(
            f'{iterations} iterations with a snapshot every {every} are too '
            'few for a covariance; train for more, so that two snapshots '
            'fall into the last three quarters.')
    start = time.monotonic()
    cfg = swag_config(cfg, scope, iterations, lr)
    model = build_for_fit(cfg, base, device)
    # Nothing to train on is said in a sentence.
    Images(model, cfg.train_dataloader.dataset, keep=False)
    hook = dict(type='SWAGHook', begin=begin, every=every, rank=rank)
    moments = _train(
        cfg, model, Path(folder) / 'training', hook, iterations, seed)
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
    """The config of a training of the norms at a constant rate."""
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
    """Let a head have the likelihood's loss, without random weights."""
    losses = head.get('loss_decode') or {}
    for loss in losses if isinstance(losses, list) else [losses]:
        if loss.get('type') == 'RandomPriorCrossEntropyLoss':
            loss['rule'] = 'none'


def _train(cfg: Config, model: BayesianSegmentor, folder: Path, hook: dict,
           iterations: int, seed: int) -> Moments:
    """Run the training, or what is left of it."""
    sweep(folder)
    with claimed(folder), safe_globals(), progress_bar(
            'SWAG', iterations) as show:
        last = last_readable(folder)
        keep_settings(folder, dict(
            fit_settings(cfg, model), seed=seed, hook=hook), last is not None)
        runner = build_runner(
            model, cfg, folder, randomness=dict(seed=seed),
            train_dataloader=replayable(cfg.train_dataloader, seed),
            load_from=last, resume=last is not None,
            val_dataloader=None, val_cfg=None, val_evaluator=None,
            test_dataloader=None, test_cfg=None, test_evaluator=None,
            custom_hooks=[hook, *(dict(type=t) for t in HOOKS_OF_FIT)])
        runner.register_hook(BarHook(show))
        runner.train()
        close_log(runner)
    [found] = [h for h in runner.hooks if isinstance(h, SWAGHook)]
    return found.moments
