"""Train the M members of a config, one after the other, from one base."""
import copy
from contextlib import ExitStack
from pathlib import Path
from typing import Optional

from mmengine.config import Config
from mmengine.dist import barrier, is_main_process
from mmengine.registry import init_default_scope
from mmengine.runner import Runner
from mmseg.registry import DATASETS, MODELS
from torch import Tensor

from abnn_mmseg.engine.amp import amp_on_cpu
from abnn_mmseg.engine.base_network import check_base, train_base
from abnn_mmseg.engine.hooks import CostHook, ProgressHook
from abnn_mmseg.engine.hooks.member_hook import only_norms
from abnn_mmseg.engine.launch import join_on_cpu
from abnn_mmseg.engine.member_config import (
    default_hooks,
    member_loop,
    with_hooks,
)
from abnn_mmseg.engine.member_validation import MemberValidator
from abnn_mmseg.engine.runners import train_and_close, training_runner
from abnn_mmseg.engine.settings import (
    FILE,
    check_settings,
    training_settings,
    versions,
)
from abnn_mmseg.engine.tester import write_metrics
from abnn_mmseg.members.files import (
    check_members,
    fingerprint,
    load_base,
    norm_state,
    read_members,
    save_members,
)
from abnn_mmseg.members.guarantees import weights_digest
from abnn_mmseg.models.losses import RandomPriorCrossEntropyLoss
from abnn_mmseg.models.posteriors.options import check_options
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.checkpoints import (
    is_prior,
    is_same_state,
    read_checkpoint,
    read_state_dict,
    safe_globals,
)
from abnn_mmseg.utils.files import claimed, sweep

DEFAULT_MEMBERS = 3


def train(cfg: Config,
          members: Optional[int] = None,
          only: Optional[int] = None,
          overwrite: bool = False) -> list[dict]:
    """Train a base network, or members if the config has a posterior.

    Args:
        cfg (Config): With ``cfg.resume`` True, finished members are kept and
            the unfinished one is resumed.
        members (int, optional): Overrides ``cfg.train_cfg.members``.
        only (int, optional): Train this member alone, e.g. in a job array.
        overwrite (bool): Replace finished members. Defaults to False, which
            refuses them unless ``cfg.resume``.

    Returns:
        list[dict]: Rows of the closing table, empty for a base network.
    """
    init_default_scope(cfg.get('default_scope', 'mmseg'))
    join_on_cpu(cfg)
    amp_on_cpu(cfg)
    with safe_globals():
        if 'posterior' not in cfg.model:
            cfg.custom_hooks = with_hooks(cfg, 'CostHook')
            train_base(cfg)
            return []
        return MemberTrainer(cfg, members, only, overwrite).run()


class MemberTrainer:
    """Builds the model once and restores its norms between members.

    Args:
        cfg (Config): The members' config. Its ``train_cfg`` becomes that of
            one member.
        members (int, optional): Overrides ``cfg.train_cfg.members``.
        only (int, optional): Train this member alone.
        overwrite (bool): Replace finished members. Defaults to False.
        model (BayesianSegmentor, optional): The config's model, if it is
            built already.
    """

    def __init__(self, cfg: Config, members: Optional[int] = None,
                 only: Optional[int] = None, overwrite: bool = False,
                 model: Optional[BayesianSegmentor] = None) -> None:
        self.cfg = cfg
        self.count = (cfg.train_cfg.get('members', DEFAULT_MEMBERS)
                      if members is None else members)
        if self.count < 1:
            raise ValueError(f'{self.count} members cannot be trained; set '
                             'train_cfg.members or --members to at least 1.')
        cfg.train_cfg = member_loop(cfg.train_cfg)
        if only is not None and not 0 <= only < self.count:
            raise ValueError(f'--member {only} does not exist; members are '
                             f'numbered 0 to {self.count - 1}.')
        self.numbers = range(self.count) if only is None else [only]
        self.seed = (cfg.get('randomness') or {}).get('seed') or 0
        self.folder = Path(cfg.work_dir)
        if cfg.get('resume'):
            sweep(self.folder)
        elif not overwrite:
            self._check_free()
        # Building a model may change its config.
        self.settings = training_settings(cfg)
        check_options(cfg.model.posterior)
        # Missing data is reported before a missing base.
        DATASETS.build(cfg.train_dataloader.dataset)
        check_base(cfg)
        self.model = MODELS.build(cfg.model) if model is None else model
        if not self.model.posterior.trains:
            raise ValueError(
                f'{cfg.model.posterior.type} has no members to train; train '
                'the base with its own config, without posterior, and test '
                'it with this one.')
        # Members that the config names are for testing only.
        self.model.posterior.member_files = None
        load_base(self.model, cfg.load_from)
        self.base_norms = norm_state(self.model)
        self.fingerprint = fingerprint(self.model)
        self.base_digest = weights_digest(self.model.posterior)
        self.validator = MemberValidator(
            self.model, cfg, self.folder / 'validation')

    def _check_free(self) -> None:
        """Refuse a folder whose finished members would be replaced."""
        for path in (self.folder / 'members.pth',
                     *map(self.path, self.numbers)):
            if path.exists():
                raise FileExistsError(
                    f'{path} is finished and would be replaced; add --resume '
                    'to keep it and train what is missing, --overwrite to '
                    'train it again, or choose another --work-dir.')

    def run(self) -> list[dict]:
        """Train the missing members; return the rows of the table."""
        with ExitStack() as claims:
            if is_main_process():
                for number in self.numbers:
                    claims.enter_context(
                        claimed(self.folder / f'member_{number}'))
            return self._run()

    def _run(self) -> list[dict]:
        if not self.cfg.get('resume'):
            self._remove_earlier()
        for number in self.numbers:
            if not (self.cfg.get('resume') and self._is_finished(number)):
                self._train(number)
        if not all(self._is_finished(k) for k in range(self.count)):
            return []
        self._merge()
        rows = self.table() if self.validator.is_wanted else []
        self.validator.close()
        if rows and is_main_process():
            write_metrics(self.folder / 'validation.json', {
                row.pop('name'): row for row in copy.deepcopy(rows)})
        return rows

    def _remove_earlier(self) -> None:
        """Remove the members of an earlier training.

        They may have had other settings, and a later ``resume`` would keep
        them.
        """
        if is_main_process():
            for number in self.numbers:
                folder = self.folder / f'member_{number}'
                for path in (self.path(number), folder / 'last_checkpoint',
                             folder / FILE, *folder.glob('*.pth')):
                    path.unlink(missing_ok=True)
        barrier()

    def path(self, number: int) -> Path:
        """The finished file of a member."""
        return self.folder / f'member_{number}.pth'

    def _is_finished(self, number: int) -> bool:
        if not self.path(number).is_file():
            return False
        [member] = read_members(self.path(number))
        check_members(self.model, [member])
        meta = member['meta']
        own = self._settings_of(number)
        known = {**(meta.get('training') or {}),
                 **{name: meta.get(name) for name in own}}
        if 'base' not in meta:
            # Imported members lack it; their fingerprint was checked.
            own.pop('base'), known.pop('base')
        check_settings(self.path(number), known, {**self.settings, **own})
        return True

    def _settings_of(self, number: int) -> dict:
        """What else the file of a member must agree in."""
        return dict(
            base=self.base_digest,
            seed=self.seed + number,
            alpha=self.model.posterior.alpha,
            scope=self.model.posterior.scope,
            finetune=self.model.finetune)

    def _train(self, number: int) -> None:
        """Train one member from the base, with its own eta and seed."""
        self._restore()
        for loss in self.model.modules():
            if isinstance(loss, RandomPriorCrossEntropyLoss):
                loss.draw(self.seed + number)
        runner, cost = self._runner(number), CostHook()
        train_and_close(runner, cost, ProgressHook(
            f'Member {number}', self.numbers.index(number),
            len(self.numbers)))
        state, meta = self._result(runner)
        meta.update(
            self._settings_of(number), member=number, seconds=cost.seconds,
            training=self.settings)
        if self.validator.is_wanted:
            meta['metrics'] = self.validator.score(
                f'member {number}', [state])
        if is_main_process():
            save_members(self.path(number), [dict(state=state, meta=meta)],
                         self.fingerprint)
        barrier()

    def _restore(self) -> None:
        """Set all norms to those of the base."""
        self.model.load_state_dict(self.base_norms, strict=False)
        self.model.zero_grad(set_to_none=True)

    def _runner(self, number: int) -> Runner:
        """Build the runner of one member; resume it if ``cfg.resume``."""
        return training_runner(
            self.model, self.cfg, self.folder / f'member_{number}',
            self.cfg.train_dataloader, self.seed + number,
            {**self.settings, **self._settings_of(number)},
            bool(self.cfg.get('resume')),
            default_hooks=default_hooks(self.cfg),
            custom_hooks=with_hooks(self.cfg, 'AuditHook', 'StabilityHook',
                                     'MemberHook'))

    def _result(self, runner: Runner) -> tuple[dict[str, Tensor], dict]:
        """Norms and description of the best checkpoint, else of the last.

        With ``EMAHook`` the ``state_dict`` of a checkpoint holds the averaged
        weights, which were also validated, so the member is the average.
        """
        known = runner.message_hub.runtime_info
        best = [v for k, v in known.items() if k.startswith('best_ckpt')]
        chosen = (best or [known['last_ckpt']])[0]
        state = only_norms(self.model, read_state_dict(chosen))
        eta = [v for k, v in state.items() if is_prior(k)]
        meta = dict(
            iterations=read_checkpoint(chosen)['meta']['iter'],
            eta=eta[0].tolist() if eta else None,
            checkpoint=Path(chosen).name,
            versions=versions())
        return {k: v for k, v in state.items() if not is_prior(k)}, meta

    def _merge(self) -> None:
        path = self.folder / 'members.pth'
        members = read_members([self.path(k) for k in range(self.count)])
        # If it has the same weights, it may hold fitted numbers to keep.
        if is_main_process() and not _holds(path, members):
            save_members(path, [
                dict(state=m['state'], meta=m['meta']) for m in members
            ], self.fingerprint)

    def table(self) -> list[dict]:
        """Validation metrics of the base, each member, and all together."""
        self._restore()
        return self.validator.table(
            [read_members(self.path(k))[0] for k in range(self.count)])


def _holds(path: Path, members: list[dict]) -> bool:
    """Whether a member file exists and holds exactly these weights."""
    try:
        known = read_members(path)
    except (OSError, ValueError):
        return False
    return len(known) == len(members) and all(
        a['fingerprint'] == b['fingerprint']
        and is_same_state(a['state'], b['state'])
        for a, b in zip(known, members))
