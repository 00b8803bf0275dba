"""Validate members, each alone or all together."""
from pathlib import Path
from typing import Optional

from mmengine.config import Config
from torch import Tensor

from abnn_mmseg.engine.runners import build_runner, close_log
from abnn_mmseg.models.posteriors import DeterministicPosterior
from abnn_mmseg.models.segmentor import BayesianSegmentor


class MemberValidator:
    """A runner that validates a model with any members.

    Args:
        model (BayesianSegmentor): With the norms of the base.
        cfg (Config): With a ``val_dataloader``.
        folder (Path): The runner's work folder.
    """

    def __init__(self, model: BayesianSegmentor, cfg: Config,
                 folder: Path) -> None:
        self.model = model
        # Nothing is trained here, so nothing is resumed or saved.
        hooks = dict(cfg.get('default_hooks') or {}, checkpoint=None)
        self.runner = build_runner(
            model, cfg, folder, resume=False, load_from=None,
            default_hooks=hooks, custom_hooks=[dict(type='AuditHook')])

    def score(self, name: str,
              states: Optional[list[dict[str, Tensor]]]) -> dict[str, float]:
        """Validation metrics of members, or of the base alone.

        Args:
            name (str): Their name in the log.
            states (list[dict], optional): The members' norms. None is the
                base.
        """
        self.runner.logger.info(f'Validation of {name}:')
        model = self.model
        posterior, prediction = model.posterior, model.prediction
        if prediction == 'base':
            # Members are measured by their own class maps.
            model.prediction = 'centre'
        if states is None:
            model.posterior = DeterministicPosterior()
        else:
            posterior.set_members(states)
        try:
            return {k: float(v) for k, v in self.runner.val().items()}
        finally:
            model.posterior, model.prediction = posterior, prediction
            posterior.set_members([])

    def close(self) -> None:
        """Close the log file."""
        close_log(self.runner)
