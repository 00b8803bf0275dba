"""A method of a comparison: a posterior on a trained network."""
import copy
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from torch import Tensor

from abnn_mmseg.engine.hooks.cost_hook import KEY as TRAINING_SECONDS
from abnn_mmseg.engine.loading import (
    BAYESIAN,
    bayesian_model_cfg,
    split_checkpoints,
)
from abnn_mmseg.engine.tester import Tester
from abnn_mmseg.members.files import is_member_file, read_members
from abnn_mmseg.models.answering import PREDICTIONS
from abnn_mmseg.models.checks import check_temperature
from abnn_mmseg.utils.arguments import config_file
from abnn_mmseg.utils.checkpoints import (
    bytes_of,
    map_state_dict,
    read_checkpoint,
)
from abnn_mmseg.utils.choices import one_of
from abnn_mmseg.utils.configs import find_config


@dataclass(eq=False)
class Method:
    """One way to get uncertainty: an entry of ``methods`` in a config.

    Args:
        name: Name in the table.
        config: Config file of the model.
        checkpoints: All files of weights: a base and member files, or the
            full checkpoints of an ensemble.
        posterior: Replaces the posterior of the config.
        options: Overrides of the config, as ``--cfg-options``.
        variants: Rows that share their draws, by name: overrides of
            ``prediction`` and ``temperature`` of the segmentor.
        group: Name of methods that differ only by seed; the table adds their
            mean and spread.
        training_seconds: Training time of the first checkpoint, if the file
            does not hold it.
    """
    name: str
    config: str
    checkpoints: list[str]
    posterior: Optional[dict] = None
    options: dict = field(default_factory=dict)
    variants: dict[str, dict] = field(default_factory=lambda: {'': {}})
    group: Optional[str] = None
    training_seconds: Optional[float] = None

    def __post_init__(self) -> None:
        self.config = find_config(self.config)
        self.checkpoints = [str(path) for path in self.checkpoints]
        for path in [self.config, *self.checkpoints]:
            if not Path(path).is_file():
                raise FileNotFoundError(
                    f'{path} of the method {self.name!r} does not exist; '
                    'train it with `abnn train` first, name another file '
                    'in the config, or leave the method out with --only.')
        for name, changes in self.variants.items():
            strange = set(changes) - {'prediction', 'temperature'}
            if strange:
                raise ValueError(
                    f'variant {name!r} of the method {self.name!r} changes '
                    f'{sorted(strange)[0]!r}; a variant may change '
                    'prediction and temperature, so write a method.')
            one_of(f'prediction of the variant {name!r}',
                   changes.get('prediction', PREDICTIONS[0]), PREDICTIONS)
            check_temperature(changes.get('temperature', 1.))
        full, members = split_checkpoints(self.checkpoints)
        self.checkpoints = [*full, *members]
        self.cfg = config_file(self.config)
        self.cfg.merge_from_dict(self.options)
        if self.posterior is not None:
            model = self.cfg.model
            model.type = BAYESIAN.get(model.type, model.type)
            model.posterior = copy.deepcopy(self.posterior)
        for files in ('members', 'checkpoints'):
            if self.cfg.model.get('posterior', {}).get(files):
                raise ValueError(
                    f'the posterior of the method {self.name!r} names '
                    f'{files}; write them in checkpoints of the method, so '
                    'that its cost counts them.')

    def tester(self, work_dir: str, device: Optional[str] = None) -> Tester:
        """The loaded segmentor in a runner that logs to ``work_dir``."""
        cfg = copy.deepcopy(self.cfg)
        # The config's hooks belong to its own training and tests.
        cfg.update(work_dir=work_dir, log_level='WARNING', custom_hooks=[])
        return Tester(cfg, self.checkpoints, device)

    def settings(self, variant: str) -> dict:
        """Everything of the method that a row depends on."""
        changes = self.variants[variant]
        own = self.cfg.model.get('temperature')
        uses = changes.get('temperature', own) == 'members'
        return dict(
            model=bayesian_model_cfg(self.cfg).to_dict(),
            variant=dict(changes),
            weights=[digest(path, uses) for path in self.checkpoints])

    def training(self) -> dict:
        """Training seconds of the base and of all other checkpoints."""
        first, *others = self.checkpoints
        base = training_seconds(first)
        if base is None:
            base = self.training_seconds
        own = [training_seconds(path) for path in others]
        known = [seconds for seconds in own if seconds is not None]
        return dict(
            base_seconds=base,
            own_seconds=sum(known, 0.) if len(known) == len(own) else None)

    def disk_bytes(self) -> int:
        """Size of all weights of the method, without optimizers."""
        return sum(
            Path(path).stat().st_size if is_member_file(path) else sum(
                value.nbytes for value in map_state_dict(path).values())
            for path in self.checkpoints)


def digest(path: str, with_temperature: bool = False) -> str:
    """A fingerprint of the weights in a file.

    Optimizers and metadata are left out, except a temperature in use.
    """
    sha = hashlib.sha256()
    if is_member_file(path):
        for member in read_members(path):
            sha.update(member['fingerprint'].encode())
            _add(sha, member['state'])
            if with_temperature:
                known = member['meta'].get('temperatures') or {}
                sha.update(repr(sorted(known.items())).encode())
    else:
        _add(sha, map_state_dict(path))
    return sha.hexdigest()[:16]


def _add(sha, state: dict[str, Tensor]) -> None:
    for name, value in sorted(state.items()):
        sha.update(f'{name} {value.dtype} {tuple(value.shape)}'.encode())
        sha.update(bytes_of(value))


def training_seconds(path: str) -> Optional[float]:
    """Training seconds stored in a file; None if it has none."""
    if is_member_file(path):
        seconds = [m['meta'].get('seconds') for m in read_members(path)]
        return None if None in seconds else float(sum(seconds))
    meta = read_checkpoint(path, mmap=True).get('meta')
    return (meta or {}).get(TRAINING_SECONDS)
