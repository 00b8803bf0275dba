"""The methods that are compared with HMC, each fitted to the same images."""
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from abnn_mmseg.engine import train
from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.fitting.fitted import (
    fitted_config,
    layers_to_fit,
    save_fit,
    split_vector,
)
from abnn_mmseg.fitting.laplace import STRUCTURES, fit_laplace
from abnn_mmseg.fitting.likelihood import norm_parameters, posterior_energy
from abnn_mmseg.fitting.norm_chain import norm_likelihood
from abnn_mmseg.fitting.swag import fit_swag
from benchmarks.posterior_world import ABNN, World

# Of a member, and of a tuning: ten epochs of 16 images.
ITERATIONS = 40
RATE = 0.01
# Snapshots of SWAG begin after a quarter.
SWAG_ITERATIONS = 120
Methods = dict[str, tuple[dict, list[str]]]


def methods(world: World) -> Methods:
    """Posterior and member files of each method, by the name of its row."""
    args = world.args
    draws = args.draws
    rows: Methods = {'base': (dict(type='DeterministicPosterior'), [])}
    random = [members(world, 'sqrt')]
    each = max(2, draws // args.members // 2 * 2)
    for alpha in args.alphas:
        noise = dict(type='BNLPosterior', alpha=alpha)
        rows[f'noise on the base, alpha = {alpha:g}'] = (
            dict(noise, samples=draws), [])
        rows[f'ABNN, alpha = {alpha:g}'] = dict(noise, samples=each), random
    rows['ABNN per pixel, alpha = 0.1'] = dict(
        type='BNLPosterior', alpha=0.1, samples=each,
        noise='element'), random
    sampled = dict(type='SampledPosterior')
    rows['members without noise'] = sampled, random
    rows['members without random class weights'] = sampled, [
        members(world, 'none')]
    rows['tuned from other starts'] = sampled, [tuned(world)]
    for structure in STRUCTURES:
        rows[f'Laplace, {structure}'] = (
            dict(type='LaplacePosterior', samples=draws),
            [laplace(world, structure)])
    rows['SWAG'] = dict(type='SWAGPosterior', samples=draws), [swag(world)]
    rows['MC dropout, head'] = dict(
        type='DropoutPosterior', rate=0.2, samples=draws), []
    rows['MC dropout, stages'] = dict(
        type='DropoutPosterior', rate=0.1, samples=draws,
        modules=['backbone.layer3', 'backbone.layer4', '*.dropout']), []
    return rows


def members(world: World, rule: str) -> str:
    """ABNN members, with random class weights (``'sqrt'``) or without."""
    cfg = world.config(ABNN)
    folder = world.folder / f'members_{rule}'
    cfg.work_dir = str(folder)
    cfg.load_from = world.base
    cfg.validate_members = False
    cfg.model.decode_head.loss_decode.rule = rule
    cfg.train_cfg.max_iters = cfg.param_scheduler[0].end = ITERATIONS
    path = folder / 'members.pth'
    if not path.is_file():
        train(cfg, world.args.members)
    return str(path)


def laplace(world: World, structure: str) -> str:
    """A fitted Gaussian, by the curvature."""
    path = world.folder / f'laplace_{structure}.pth'
    if not path.is_file():
        fit_laplace(
            world.config(ABNN), world.base, str(path),
            str(world.folder / f'laplace_{structure}'), structure,
            pixels=world.args.effective_pixels)
    return str(path)


def swag(world: World) -> str:
    """A fitted Gaussian, by the trajectory."""
    path = world.folder / 'swag.pth'
    if not path.is_file():
        fit_swag(world.config(ABNN), world.base, str(path),
                 str(world.folder / 'swag'), SWAG_ITERATIONS)
    return str(path)


def tuned(world: World) -> str:
    """Norms that found a maximum of the posterior, each from its start.

    Starts are draws of the prior: what a deep ensemble is to a network, with
    only norms to choose.
    """
    path = world.folder / 'tuned.pth'
    if path.is_file():
        return str(path)
    cfg = fitted_config(world.config(ABNN), 'SampledPosterior')
    model = build_segmentor(cfg, [world.base])
    settings = world.settings(1.)
    likelihood = norm_likelihood(model, cfg, settings)
    centre = likelihood.theta
    energy = posterior_energy(likelihood, centre, settings.prior_std, 1.)
    like = norm_parameters(model, layers_to_fit(model))
    found = []
    for number in range(world.args.members):
        generator = torch.Generator().manual_seed(number)
        away = torch.randn(centre.shape, generator=generator,
                           dtype=torch.float64)
        theta = minimum(energy, centre + settings.prior_std * away)
        found.append(split_vector(theta, like))
    likelihood.write(centre)
    save(path, model, found)
    return str(path)


def minimum(energy, theta: Tensor) -> Tensor:
    """The result of Adam at a decreasing rate."""
    theta = theta.clone().requires_grad_()
    optimizer = torch.optim.Adam([theta], RATE)
    decay = torch.optim.lr_scheduler.LinearLR(
        optimizer, 1., 0.05, ITERATIONS)
    for _ in range(ITERATIONS):
        _, theta.grad = energy(theta.detach())
        optimizer.step()
        decay.step()
    return theta.detach()


def save(path: Path, model, states: Sequence[dict]) -> None:
    """Members that were tuned, in a file."""
    metas = [dict(seed=k) for k, _ in enumerate(states)]
    save_fit(path, model, states, metas, dict(members=len(states)))
