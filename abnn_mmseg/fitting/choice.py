"""Choose settings of a posterior by its likelihood of validation images."""
from collections.abc import Iterable, Sequence
from typing import Optional

import torch
from mmengine.config import Config
from torch import Tensor

from abnn_mmseg.members.files import norm_state
from abnn_mmseg.members.images import Batch, Images
from abnn_mmseg.members.temperature import labelled_pixels
from abnn_mmseg.models.posteriors import DeterministicPosterior, Posterior
from abnn_mmseg.models.posteriors.gaussian import GaussianPosterior
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.configs import part_of
from abnn_mmseg.utils.console import progress

# Draws for each candidate; enough, since candidates are far apart.
DRAWS = 4


class Choice:
    """Measures the NLL of the posterior mean on val for several candidates.

    The evidence is not used: a norm layer makes the scale of the weights
    before it irrelevant, and the evidence changes with that scale although
    the function does not (Antoran et al., 2022).

    Args:
        cfg (Config): With ``val_dataloader``.
        model (BayesianSegmentor): With the Gaussian to choose for.
        spread (dict): The tensors of its member besides the norms.
        images (int, optional): How many images of val to use. Defaults to
            all.
    """

    def __init__(self, cfg: Config, model: BayesianSegmentor,
                 spread: dict[str, Tensor],
                 images: Optional[int] = None) -> None:
        self.model = model
        self.data = Images(
            model, part_of(cfg, 'val_dataloader').dataset, images)
        self.state = {**norm_state(model), **spread}
        posterior = model.posterior
        assert isinstance(posterior, GaussianPosterior)
        self.posterior = posterior
        self.reference = DeterministicPosterior()
        self.reference.attach(model)
        self._base: Optional[float] = None

    @property
    def base(self) -> float:
        """The NLL of the base alone."""
        if self._base is None:
            self._base = self._nll(self.reference)
        return self._base

    def among(self, candidates: Iterable[dict[str, float]]) -> list[dict]:
        """Return each candidate with its ``nll``.

        Args:
            candidates (Iterable[dict]): Numbers to add to the member, by
                name.
        """
        candidates = list(candidates)
        self.posterior.samples = DRAWS
        trials = []
        for candidate in progress(candidates, 'Choice', len(candidates)):
            numbers = {k: torch.tensor(v) for k, v in candidate.items()}
            self.posterior.set_members([{**self.state, **numbers}])
            trials.append(dict(candidate, nll=self._nll(self.posterior)))
        return trials

    def _nll(self, posterior: Posterior) -> float:
        total, count = 0., 0
        for batch in self.data:
            loss, pixels = self._loss(batch, posterior)
            total, count = total + loss, count + pixels
        if not count:
            raise ValueError('the validation images have no labelled pixel '
                             'to choose by; check val_dataloader of the '
                             'config.')
        return total / count

    @torch.no_grad()
    def _loss(self, batch: Batch, posterior: Posterior) -> tuple[float, int]:
        """Sum of -log p of the labelled pixels, and their number."""
        answer = self.model.answer(batch.inputs, batch.metas, posterior, ())
        self.model.conclude(answer, batch.samples, 'posterior_mean', 1.)
        total, count = 0., 0
        for sample in batch.samples:
            logits, labels = labelled_pixels(sample)
            total -= float(logits.gather(1, labels[:, None]).double().sum())
            count += len(labels)
        return total, count


def lowest(trials: Sequence[dict]) -> dict:
    """The trial with the lowest NLL."""
    return min(trials, key=lambda trial: trial['nll'])
