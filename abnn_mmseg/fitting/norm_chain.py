"""One HMC chain over the norms of a network, stored in a file."""
import dataclasses
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional

import torch
from mmengine.config import Config
from torch import Tensor

from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.engine.settings import first_difference
from abnn_mmseg.fitting.fitted import layers_to_fit, training_set
from abnn_mmseg.fitting.hmc import Chain
from abnn_mmseg.fitting.likelihood import (
    NormLikelihood,
    effective_pixels,
    pixel_logits,
    posterior_energy,
)
from abnn_mmseg.members.images import Images
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.checkpoints import read_checkpoint
from abnn_mmseg.utils.configs import part_of
from abnn_mmseg.utils.files import atomic_path

# Seconds between two saves.
SAVE_EVERY = 30.
# Divergent trajectories in a row after which a chain stops.
MOST_DIVERGENT = 20


@dataclass
class HMCSettings:
    """The settings that the samples of a chain depend on.

    Args:
        images: Training images, evenly spread.
        samples: Samples of each chain, after burn-in.
        burn_in: Trajectories that adapt the step size and are not kept.
        prior_std: Standard deviation s of the Gaussian prior.
        prior_mean: ``'base'`` centres the prior on the norms of the base,
            which was trained on more images than these; ``'zero'`` on zero,
            as weight decay does.
        temperature: Temperature of the posterior; below 1 it is cold.
        effective_pixels: E of an image; None estimates it.
        acceptance: Target share of accepted trajectories.
        length: Length of a trajectory. None is pi / 2 times the standard
            deviation of the prior; on the prior alone, consecutive samples
            would then be independent.
        max_steps: Most steps of a trajectory.
        batch: Images in a pass.
        seed: Seed of the chains.
        check_images: Validation images on which chains are compared.
        check_pixels: Pixels of these images.
        source: Base, scope and data, see
            :func:`~abnn_mmseg.fitting.fitted.fit_settings`.
    """
    images: Optional[int] = None
    samples: int = 100
    burn_in: int = 50
    prior_std: float = 0.1
    prior_mean: str = 'base'
    temperature: float = 1.
    effective_pixels: Optional[float] = None
    acceptance: float = 0.8
    length: Optional[float] = None
    max_steps: int = 200
    batch: int = 8
    seed: int = 0
    check_images: int = 4
    check_pixels: int = 500
    source: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ('prior_std', 'temperature'):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f'{name}={getattr(self, name)} of HMC must '
                                 'be a positive number.')
        if self.samples < 4 or self.burn_in < 1:
            raise ValueError(
                f'{self.samples} samples after {self.burn_in} of burn-in '
                'cannot be checked; draw at least 4 after at least 1.')
        if self.prior_mean not in ('base', 'zero'):
            raise ValueError(f"prior_mean={self.prior_mean!r} of HMC; write "
                             "'base' or 'zero'.")
        if not 0 < self.acceptance < 1:
            raise ValueError(f'acceptance={self.acceptance} of HMC is not a '
                             'share; write a number such as 0.8.')

    @property
    def trajectory(self) -> float:
        """Length of a trajectory."""
        return self.length or (
            math.pi / 2 * self.prior_std * math.sqrt(self.temperature))


class NormChain:
    """A chain over a network's norms, stored in a file.

    Args:
        cfg (Config): See :func:`fitted_config`.
        base (str): The base's checkpoint.
        settings (HMCSettings): Settings of the chain.
        number (int): Number of the chain.
        path (Path): File of the chain.
    """

    def __init__(self, cfg: Config, base: str, settings: HMCSettings,
                 number: int, path: Path) -> None:
        self.settings = settings
        self.path = path
        self.number = number
        self.model = build_segmentor(cfg, [base])
        likelihood = norm_likelihood(self.model, cfg, settings)
        self.likelihood = likelihood
        theta = likelihood.theta
        centre = (theta if settings.prior_mean == 'base' else
                  torch.zeros_like(theta))
        generator = torch.Generator().manual_seed(
            settings.seed * 1009 + number)
        away = torch.randn(theta.shape, generator=generator,
                           dtype=torch.float64)
        self.chain = Chain(
            posterior_energy(likelihood, centre, settings.prior_std,
                             settings.temperature),
            theta + settings.prior_std * away, settings.trajectory,
            settings.burn_in, settings.seed * 1009 + number + 500,
            target=settings.acceptance, max_steps=settings.max_steps)
        self.check = CheckPixels(self.model, cfg, settings)
        self.samples: list[Tensor] = []
        self.seen: list[Tensor] = []
        self.seconds = 0.
        self._load()

    @property
    def count(self) -> int:
        """Number of finished trajectories."""
        return len(self.chain.trace)

    def run(self, report: Callable[[int], None]) -> None:
        """Run the remaining trajectories.

        Args:
            report (Callable): Called with the number of finished ones.
        """
        saved = time.monotonic()
        while self.count < self.settings.burn_in + self.settings.samples:
            start = time.monotonic()
            burning = self.chain.is_burning_in
            theta = self.chain.advance()
            self._check_divergence()
            if not burning:
                self.samples.append(theta.float())
                self.likelihood.write(theta)
                self.seen.append(self.check.probabilities())
            self.seconds += time.monotonic() - start
            if time.monotonic() - saved > SAVE_EVERY:
                self._save()
                saved = time.monotonic()
            report(self.count)
        self._save()

    def _check_divergence(self) -> None:
        last = self.chain.trace[-MOST_DIVERGENT:]
        if len(last) == MOST_DIVERGENT and all(e['divergent'] for e in last):
            self._save()
            raise ValueError(
                f'chain {self.number} diverges: the last {MOST_DIVERGENT} '
                f'trajectories, with steps of {last[-1]["step"]:.2g}, did not '
                'preserve the energy. Lower --prior-std or '
                '--effective-pixels, or give it a longer --burn-in to find '
                f'smaller steps; then remove {self.path}.')

    def _save(self) -> None:
        with atomic_path(self.path) as temporary:
            torch.save(dict(
                settings=dataclasses.asdict(self.settings),
                pixels=self.likelihood.pixels,
                chain=self.chain.state_dict(), seconds=self.seconds,
                samples=stacked(self.samples),
                seen=stacked(self.seen)), temporary)

    def _load(self) -> None:
        if not self.path.is_file():
            return
        content = read_checkpoint(self.path)
        check_settings(self.path, content, self.settings)
        self.chain.load_state_dict(content['chain'])
        self.seconds = content['seconds']
        self.samples = list(content['samples'])
        self.seen = list(content['seen'])


def norm_likelihood(model: BayesianSegmentor, cfg: Config,
                    settings: HMCSettings) -> NormLikelihood:
    """The likelihood of the training images that the settings name."""
    images = Images(model, training_set(cfg), settings.images,
                    settings.batch, keep=True)
    pixels = settings.effective_pixels
    if pixels is None:
        pixels = effective_pixels(model, images)
    return NormLikelihood(model, layers_to_fit(model), images, pixels)


class CheckPixels:
    """Pixels of validation images on which chains are compared."""

    def __init__(self, model: BayesianSegmentor, cfg: Config,
                 settings: HMCSettings) -> None:
        self.model = model
        self.images = Images(
            model, part_of(cfg, 'val_dataloader').dataset,
            settings.check_images, keep=True)
        self.pixels = settings.check_pixels

    @torch.no_grad()
    def probabilities(self) -> Tensor:
        """Probabilities of the model's current norms, ``[pixels, C]``."""
        logits = torch.cat([
            logits for batch in self.images
            for logits, _ in pixel_logits(self.model, batch)])
        step = max(1, len(logits) // self.pixels)
        return logits[::step][:self.pixels].softmax(1).float().cpu()


def check_settings(path: Path, content: dict, settings: HMCSettings) -> None:
    """Raise ValueError if a file holds a chain with other settings.

    The number of samples may differ: the chain is continued.
    """
    known, wanted = (
        {**own, **own.get('source', {}), 'source': None, 'samples': None}
        for own in (content['settings'], dataclasses.asdict(settings)))
    name = first_difference(known, wanted)
    if name is not None:
        raise ValueError(
            f'{path} is a chain with {name}={known.get(name)!r}, and '
            f'{wanted.get(name)!r} is asked for; choose another --work-dir, '
            'or remove it.')


def stacked(values: list[Tensor]) -> Tensor:
    """Stack tensors; an empty list gives an empty tensor."""
    return torch.stack(values) if values else torch.zeros(0)
