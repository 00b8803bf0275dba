"""Fit by HMC: run chains, check convergence, keep samples as members."""
import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from mmengine.logging import MMLogger

from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.fitting.chains import run_chains
from abnn_mmseg.fitting.convergence import effective_size, split_rhat
from abnn_mmseg.fitting.fitted import (
    fit_settings,
    fitted_config,
    layers_to_fit,
    save_fit,
    split_vector,
)
from abnn_mmseg.fitting.hmc import summary
from abnn_mmseg.fitting.likelihood import norm_parameters
from abnn_mmseg.fitting.norm_chain import HMCSettings
from abnn_mmseg.models.scopes import Scope
from abnn_mmseg.utils.choices import evenly_spaced

# Above this R-hat, chains do not agree (Gelman et al.; Izmailov et al., 2021).
RHAT = 1.1
# The share of pixels and parameters whose R-hat must be below it.
SHARE = 0.95
# A lower acceptance gives a warning.
ACCEPTANCE = 0.6
# A smaller effective sample size does: a mean would not have one digit.
ESS = 50


def fit_hmc(cfg: Config, base: str, out: str, folder: str,
            settings: HMCSettings, chains: int = 4, jobs: int = 1,
            keep: int = 32, scope: Scope = 'all') -> dict:
    """Sample the posterior over norm parameters; return the report.

    Args:
        cfg (Config): Config of the base.
        base (str): Checkpoint of the base.
        out (str): The member file to write, for ``SampledPosterior``.
        folder (str): Folder of the chains.
        settings (HMCSettings): Settings of each chain.
        chains (int): Number of chains. Defaults to 4.
        jobs (int): Chains that run at once, each in a process. Defaults to 1.
        keep (int): Samples in the file, evenly spread over the chains.
        scope (str | Sequence[str]): Layers whose norms vary.
    """
    if chains < 2:
        raise ValueError(f'{chains} chain cannot show that it has converged; '
                         'run at least 2.')
    start = time.monotonic()
    cfg = fitted_config(cfg, 'SampledPosterior', scope)
    # Refuse a base without norms before any process starts.
    model = build_segmentor(cfg, [base])
    contents = run_chains(
        cfg, base, dataclasses.replace(
            settings, source=fit_settings(cfg, model)),
        chains, Path(folder), jobs)
    report = convergence(contents, settings)
    report['effective_pixels'] = contents[0]['pixels']
    report['seconds'] = sum(content['seconds'] for content in contents)
    report['wall_seconds'] = time.monotonic() - start
    report['settings'] = dataclasses.asdict(settings)
    for warning in report['warnings']:
        MMLogger.get_current_instance().warning(warning)
    parameters = norm_parameters(model, layers_to_fit(model))
    states, metas = [], []
    chosen = spread_samples(chains, settings.samples, keep)
    for chain, number in chosen:
        states.append(split_vector(contents[chain]['samples'][number],
                                   parameters))
        metas.append(dict(
            kind='hmc', chain=chain, sample=number, seed=settings.seed,
            scope=scope, prior_std=settings.prior_std,
            temperature=settings.temperature,
            effective_pixels=report['effective_pixels'],
            seconds=report['seconds'] / len(chosen)))
    save_fit(out, model, states, metas, report)
    return report


def convergence(contents: Sequence[dict], settings: HMCSettings) -> dict:
    """Measure how well the chains agree; warn where they do not."""
    burn_in, count = settings.burn_in, settings.samples
    report: dict = summary(
        [c['chain']['trace'][:burn_in + count] for c in contents], burn_in)
    theta, seen = (
        torch.stack([c[name][:count] for c in contents]).numpy()
        for name in ('samples', 'seen'))
    # The most likely class of each pixel, over all samples.
    best = seen.mean((0, 1)).argmax(-1)
    pixels = np.take_along_axis(
        seen, best[None, None, :, None], -1)[..., 0]
    for name, values in (('parameters', theta), ('pixels', pixels)):
        rhat, size = split_rhat(values), effective_size(values)
        report[name] = dict(
            count=int(rhat.size),
            rhat_below=float((rhat <= RHAT).mean()),
            rhat_median=float(np.median(rhat)),
            rhat_95=float(np.quantile(rhat, SHARE)),
            ess_median=float(np.median(size)),
            ess_5=float(np.quantile(size, 1 - SHARE)))
    report['warnings'] = list(warnings_of(report))
    return report


def warnings_of(report: dict):
    """Yield a warning for each bad number."""
    for name in ('parameters', 'pixels'):
        found = report[name]
        if found['rhat_below'] < SHARE:
            yield (f'only {found["rhat_below"]:.0%} of the {name} have a '
                   f'split R-hat of {RHAT} or less: the chains do not agree '
                   'yet; draw more samples.')
        if found['ess_median'] < ESS:
            yield (f'half of the {name} have an effective sample size below '
                   f'{found["ess_median"]:.0f}; draw more samples.')
    if report['acceptance'] < ACCEPTANCE:
        yield (f'only {report["acceptance"]:.0%} of the trajectories were '
               'accepted; give the step size a longer burn-in.')
    if report['divergent']:
        yield (f'{report["divergent"]:.1%} of the trajectories diverged; '
               'samples may miss where the posterior is steep.')


def spread_samples(chains: int, samples: int, keep: int
                   ) -> list[tuple[int, int]]:
    """Chain and number of the samples to keep.

    They are ordered so that the first few are spread over all chains, since
    a posterior may use only some.
    """
    if keep < 1:
        raise ValueError(f'keep={keep} samples must be at least 1.')
    each = min(samples, -(-keep // chains))
    numbers = evenly_spaced(samples, each)
    bits = max(1, (each - 1).bit_length())
    order = sorted(range(each), key=lambda i: int(f'{i:0{bits}b}'[::-1], 2))
    return [(chain, numbers[i]) for i in order
            for chain in range(chains)][:keep]
