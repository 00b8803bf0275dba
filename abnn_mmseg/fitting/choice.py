"""Choose numbers of a posterior by its predictive likelihood on val."""
from collections.abc import Iterable, Sequence
from typing import Optional

import torch
from mmengine.config import Config
from torch import Tensor

from abnn_mmseg.fitting.images import Batch, Images, validation_set
from abnn_mmseg.members.files import norm_state
from abnn_mmseg.members.temperature import labelled_pixels
from abnn_mmseg.models.posteriors import DeterministicPosterior, Posterior
from abnn_mmseg.models.posteriors.gaussian import GaussianPosterior
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.console import progress

# Of each candidate: enough to tell candidates a power of ten apart.
DRAWS = 4


class Choice:
    """The NLL of the posterior mean on val, for candidates.

    Not the evidence: a norm layer makes the weights before it scale-free,
    and the evidence rewards that without any change of the function
    (Antoran et al., 2022).

    Args:
        cfg (Config): With ``val_dataloader``.
        model (BayesianSegmentor): With the Gaussian to choose for.
        spread (dict): What its member has besides the norms.
        images (int, optional): Use so many of val. Defaults to all.
    """

    def __init__(self, cfg: Config, model: BayesianSegmentor,
                 spread: dict[str, Tensor],
                 images: Optional[int] = None) -> None:
        self.model = model
        self.data = Images(model, validation_set(cfg), images)
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
        """Each candidate, with its ``nll``.

        Args:
            candidates (Iterable[dict]): More numbers of the member, by name.
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
        metas = [sample.metainfo for sample in batch.samples]
        answer = self.model.answer(batch.inputs, metas, posterior, ())
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
