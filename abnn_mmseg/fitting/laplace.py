r"""Laplace's approximation of the posterior over norm parameters.

The curvature is the generalized Gauss-Newton matrix, which for a softmax is
the Fisher matrix: the covariance of the gradients of log p(y | x) when labels
are drawn from the network's own probabilities. Draws of the labels of all
pixels are independent and their gradients have mean zero, so one backward
pass an image gives the whole sum over its pixels:

    G = sum_images E / n_i * mean_draws g g^T,
    g = gradient of sum_pixels log p(y_drawn | x).

So each draw is a row of a factor of G. The diagonal is the sum over all rows.
A low-rank part keeps the directions in which the rows are longest, and the
diagonal holds the rest.
"""
import math
import time
from pathlib import Path
from typing import Any, NamedTuple, Optional

import torch
from mmengine.config import Config
from torch import Tensor

from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.fitting.choice import Choice, lowest
from abnn_mmseg.fitting.fitted import (
    fit_settings,
    fitted_config,
    layers_to_fit,
    save_fit,
    split_vector,
    training_set,
)
from abnn_mmseg.fitting.likelihood import (
    NormLikelihood,
    effective_pixels,
    pixel_logits,
)
from abnn_mmseg.members.images import Images
from abnn_mmseg.models.posteriors.gaussian import (
    DIAGONAL,
    FACTOR,
    LAYER,
    PRIOR,
    SPREAD,
    TEMPERATURE,
)
from abnn_mmseg.models.scopes import Scope
from abnn_mmseg.utils.checkpoints import read_checkpoint
from abnn_mmseg.utils.choices import one_of
from abnn_mmseg.utils.console import progress
from abnn_mmseg.utils.files import atomic_path

STRUCTURES = ('diagonal', 'layer', 'low_rank')
# The file of a curvature that is not finished.
UNFINISHED = 'unfinished_curvature.pth'
# Seconds of work that an interruption may cost.
SAVE_EVERY = 30.
# Candidates on validation images: powers of ten, and temperatures.
PRIORS = (0, 1, 2, 3, 4, 5)
TEMPERATURES = (0.01, 0.1, 0.3, 3.)


class Curvature(NamedTuple):
    """G without the prior: diagonal + F^T F, F by groups of parameters.

    Args:
        diagonal (Tensor): ``[P]``, the part of G that the rows lack.
        rows (list): For each group, F ``[R, size]``.
    """
    diagonal: Tensor
    rows: list[Tensor]


class Fisher:
    """Adds up G, image by image, and keeps the longest rows of its factor.

    Args:
        sizes (list[int]): Parameters of each group that shares rows; none
            is the diagonal alone.
        rank (int): Rows to keep of each group.
        total (int): Number of all parameters.
    """

    def __init__(self, sizes: list[int], rank: int, total: int) -> None:
        self.sizes = sizes
        self.rank = rank
        self.diagonal = torch.zeros(total, dtype=torch.float64)
        self.rows = [torch.zeros(0, size) for size in sizes]
        self.images = 0

    def add(self, row: Tensor) -> None:
        """Take in a row of the factor of G."""
        self.diagonal += row.double().square()
        if not self.sizes:
            return
        for i, part in enumerate(row.float().split(self.sizes)):
            rows = torch.cat([self.rows[i], part[None]])
            # Compressing is expensive and loses a little, so do it rarely.
            if len(rows) > 4 * self.rank:
                rows = longest(rows, self.rank)
            self.rows[i] = rows

    def curvature(self) -> Curvature:
        """G of the images so far."""
        rows = [longest(part, self.rank) for part in self.rows]
        known = (torch.cat([part.double().square().sum(0) for part in rows])
                 if rows else torch.zeros_like(self.diagonal))
        return Curvature((self.diagonal - known).clamp_min(0), rows)

    def state_dict(self) -> dict[str, Any]:
        """The sums so far."""
        return dict(diagonal=self.diagonal, rows=self.rows,
                    images=self.images)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from stored sums."""
        vars(self).update(state)


def longest(rows: Tensor, rank: int) -> Tensor:
    """The rank rows whose F^T F is nearest to that of all rows."""
    if len(rows) <= rank:
        return rows
    # The small Gram matrix gives the same as an SVD of the long rows.
    values, vectors = torch.linalg.eigh(rows.double() @ rows.double().t())
    return (vectors[:, -rank:].t() @ rows.double()).to(rows)


def sampled_rows(likelihood: NormLikelihood, batch, draws: int,
                 generator: torch.Generator) -> list[Tensor]:
    """Rows of the factor of G, ``draws`` of them for each image."""
    found = []
    for logits, labels in pixel_logits(likelihood.model, batch):
        if not len(labels):
            continue
        probability = logits.detach().softmax(1).cpu()
        weight = math.sqrt(likelihood.pixels / len(labels) / draws)
        for _ in range(draws):
            drawn = torch.multinomial(probability, 1, generator=generator)
            value = logits.log_softmax(1).gather(
                1, drawn.to(logits.device)).sum()
            found.append(weight * likelihood.gradient(value, keep=True))
    return found


def fit_laplace(cfg: Config, base: str, out: str, folder: str,
                structure: str = 'diagonal', rank: int = 20,
                draws: int = 4, images: Optional[int] = None,
                val_images: Optional[int] = 12,
                pixels: Optional[float] = None, scope: Scope = 'all',
                seed: int = 0, device: Optional[str] = None) -> dict:
    """Fit a Gaussian around the base's norms; return the report.

    Args:
        cfg (Config): Config of the base.
        base (str): Checkpoint of the base.
        out (str): The member file to write, for ``LaplacePosterior``.
        folder (str): Folder of unfinished work.
        structure (str): ``'diagonal'``; ``'layer'``, a diagonal and low rank
            in each layer; or ``'low_rank'``, across all layers.
        rank (int): Rows to keep. Defaults to 20.
        draws (int): Draws of the labels of each image. Defaults to 4.
        images (int, optional): Training images. Defaults to all.
        val_images (int, optional): Validation images for the choice of prior
            precision and temperature. Defaults to 12.
        pixels (float, optional): E; None estimates it.
        scope (str | Sequence[str]): Layers whose norms vary.
        seed (int): Seed of the drawn labels.
        device (str, optional): Device of the computation.
    """
    one_of('structure', structure, STRUCTURES)
    if rank < 1 or draws < 1:
        raise ValueError(f'rank={rank} and draws={draws} of Laplace must be '
                         'at least 1.')
    start = time.monotonic()
    cfg = fitted_config(cfg, 'LaplacePosterior', scope)
    model = build_segmentor(cfg, [base], device)
    data = Images(model, training_set(cfg), images)
    known = dict(structure=structure, rank=rank, draws=draws, seed=seed,
                 images=data.numbers, source=fit_settings(cfg, model))
    if pixels is None:
        pixels = effective_pixels(
            model, progress(data, 'Effective pixels', len(data)))
    likelihood = NormLikelihood(model, layers_to_fit(model), data, pixels)
    groups = groups_of(likelihood, structure)
    fisher = Fisher(groups, rank, len(likelihood.theta))
    _add_up(fisher, likelihood, known, Path(folder) / UNFINISHED)
    spread = _as_spread(fisher.curvature(), likelihood, structure)
    choice = Choice(cfg, model, spread, val_images)
    trials = _try_priors(choice)
    best = lowest(trials)
    spread.update({name: torch.tensor(best[name])
                   for name in (PRIOR, TEMPERATURE)})
    report = dict(
        structure=structure, images=len(data), effective_pixels=pixels,
        prior_precision=best[PRIOR], temperature=best[TEMPERATURE],
        nll=best['nll'], base_nll=choice.base,
        validation=[{k.removeprefix(SPREAD): v for k, v in trial.items()}
                    for trial in trials],
        seconds=time.monotonic() - start)
    meta = dict(kind='laplace', seed=seed, scope=scope, **{
        k: report[k] for k in ('structure', 'images', 'effective_pixels',
                               'seconds')})
    save_fit(out, model, [spread], [meta], report)
    (Path(folder) / UNFINISHED).unlink(missing_ok=True)
    return report


def _try_priors(choice: Choice) -> list[dict]:
    """Try prior precisions at T = 1, then temperatures at the best one."""
    trials = choice.among(
        [{PRIOR: 10.**p, TEMPERATURE: 1.} for p in PRIORS])
    prior = lowest(trials)[PRIOR]
    return trials + choice.among(
        [{PRIOR: prior, TEMPERATURE: t} for t in TEMPERATURES])


def groups_of(likelihood: NormLikelihood, structure: str) -> list[int]:
    """Sizes of the groups of parameters that share rows."""
    if structure == 'diagonal':
        return []
    if structure == 'low_rank':
        return [len(likelihood.theta)]
    sizes: dict[str, int] = {}
    for name, parameter in likelihood.parameters.items():
        layer = name.rpartition('.')[0]
        sizes[layer] = sizes.get(layer, 0) + parameter.numel()
    return list(sizes.values())


def _add_up(fisher: Fisher, likelihood: NormLikelihood, settings: dict,
            path: Path) -> None:
    """Make one pass over the images; continue an interrupted one."""
    settings = dict(settings, pixels=likelihood.pixels)
    draws, data = settings['draws'], likelihood.images
    if path.is_file():
        content = read_checkpoint(path)
        if content['settings'] == settings:
            fisher.load_state_dict(content['fisher'])
    saved = time.monotonic()
    done = fisher.images
    for batch in progress(data.after(done), 'Curvature', len(data) - done):
        # The same labels are drawn for an image if the run was resumed.
        generator = torch.Generator().manual_seed(
            settings['seed'] * 1_000_003 + fisher.images)
        for row in sampled_rows(likelihood, batch, draws, generator):
            fisher.add(row)
        fisher.images += len(batch.inputs)
        if time.monotonic() - saved > SAVE_EVERY:
            with atomic_path(path) as temporary:
                torch.save(dict(settings=settings,
                                fisher=fisher.state_dict()), temporary)
            saved = time.monotonic()


def _as_spread(curvature: Curvature, likelihood: NormLikelihood,
               structure: str) -> dict[str, Tensor]:
    """The curvature as tensors of a member."""
    like = likelihood.parameters
    spread = {
        DIAGONAL + name: value
        for name, value in split_vector(curvature.diagonal, like).items()
    }
    prefix = LAYER if structure == 'layer' else FACTOR
    names, first = list(like), 0
    for rows in curvature.rows:
        group: dict[str, Tensor] = {}
        while sum(p.numel() for p in group.values()) < rows.shape[1]:
            group[names[first]] = like[names[first]]
            first += 1
        spread.update({
            prefix + name: value
            for name, value in split_vector(rows, group).items()})
    return spread
