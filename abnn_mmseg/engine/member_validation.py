"""Validate the base, members, and all members together."""
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Optional

from mmengine.config import Config
from mmengine.runner import Runner
from torch import Tensor

from abnn_mmseg.engine.loading import another_posterior
from abnn_mmseg.engine.runners import build_runner, close_log
from abnn_mmseg.models.posteriors import DeterministicPosterior
from abnn_mmseg.models.segmentor import BayesianSegmentor


class MemberValidator:
    """A runner that validates a model with any members.

    Args:
        model (BayesianSegmentor): With the norms of the base.
        cfg (Config): With ``val_dataloader``, or nothing is validated.
        folder (Path): The runner's work folder.
    """

    def __init__(self, model: BayesianSegmentor, cfg: Config,
                 folder: Path) -> None:
        self.model = model
        self.cfg = cfg
        self.folder = folder

    @property
    def is_wanted(self) -> bool:
        """Whether members are validated, which takes M x L passes an image."""
        return (self.cfg.get('val_dataloader') is not None
                and self.cfg.get('validate_members', True))

    @cached_property
    def runner(self) -> Runner:
        """The runner, which is built when it is first used."""
        # Nothing is trained here, so nothing is resumed or saved.
        hooks = dict(self.cfg.get('default_hooks') or {}, checkpoint=None)
        return build_runner(
            self.model, self.cfg, self.folder, resume=False, load_from=None,
            default_hooks=hooks, custom_hooks=[dict(type='AuditHook')])

    def table(self, members: Sequence[dict]) -> list[dict]:
        """Metrics of the base, each member, and all together.

        Args:
            members (Sequence[dict]): Members as they were read. Metrics that
                their files hold are not computed again.
        """
        rows = [dict(name='base', **self.score('base', None))]
        for number, member in enumerate(members):
            name, known = f'member {number}', member['meta'].get('metrics')
            rows.append(dict(
                name=name, **(known or self.score(name, [member['state']]))))
        if len(members) > 1:
            name = f'all {len(members)}'
            rows.append(dict(name=name, **self.score(
                name, [member['state'] for member in members])))
        return rows

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
        prediction, posterior = model.prediction, model.posterior
        if prediction == 'base':
            # Members are measured by their own class maps.
            model.prediction = 'centre'
        if states is None:
            posterior = DeterministicPosterior()
            posterior.attach(model)
        else:
            posterior.set_members(states)
        try:
            with another_posterior(model, posterior):
                return {k: float(v) for k, v in self.runner.val().items()}
        finally:
            model.prediction = prediction
            model.posterior.set_members([])

    def close(self) -> None:
        """Close the log file, and forget the runner."""
        if 'runner' in vars(self):
            close_log(self.runner)
            del self.runner
