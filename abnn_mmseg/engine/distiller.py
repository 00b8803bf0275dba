"""Distil a posterior into a student that answers in one pass."""
import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Optional

import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmengine.device import get_device
from mmengine.dist import barrier, is_main_process
from mmengine.registry import init_default_scope
from mmengine.runner import Runner
from mmseg.registry import DATASETS, MODELS

from abnn_mmseg.engine.amp import amp_on_cpu
from abnn_mmseg.engine.base_network import check_base
from abnn_mmseg.engine.distill_data import distillation_loader
from abnn_mmseg.engine.distillation import Distillation
from abnn_mmseg.engine.hooks import CostHook, ProgressHook
from abnn_mmseg.engine.launch import join_on_cpu
from abnn_mmseg.engine.runners import (
    WITHOUT_TESTS,
    last_readable,
    train_and_close,
    training_runner,
)
from abnn_mmseg.engine.settings import (
    as_stored,
    check_settings,
    training_settings,
    versions,
)
from abnn_mmseg.engine.student_validation import validate
from abnn_mmseg.members.files import (
    fingerprint,
    load_base,
    read_members,
    save_members,
)
from abnn_mmseg.members.guarantees import weights_digest
from abnn_mmseg.members.students import KEY, norm_fingerprint, student_state
from abnn_mmseg.models.posteriors import Posterior
from abnn_mmseg.models.posteriors.options import check_options
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.models.students import (
    DESIGNS,
    NAMES,
    Student,
    new_student,
)
from abnn_mmseg.utils.checkpoints import safe_globals
from abnn_mmseg.utils.choices import one_of
from abnn_mmseg.utils.files import atomic_write, claimed, sweep

FILE = 'student.pth'
# Rate of a student's norms, in rates of its head.
NORMS_RATE = 0.5


def distil(cfg: Config, overwrite: bool = False) -> list[dict]:
    """Distil the posterior of a config whose loop is ``DistillTrainLoop``.

    Args:
        cfg (Config): The teacher's. Its ``load_from`` is the base, its
            posterior names the members.
        overwrite (bool): Replace a finished student. Defaults to False.

    Returns:
        list[dict]: Rows of the closing table: base, teacher and student.
    """
    init_default_scope(cfg.get('default_scope', 'mmseg'))
    join_on_cpu(cfg)
    amp_on_cpu(cfg)
    options = {k: v for k, v in cfg.train_cfg.items() if k != 'type'}
    with safe_globals():
        return Distiller(cfg, overwrite=overwrite, **options).run()


class Distiller:
    """Trains a student beside its frozen base and teacher.

    Args:
        cfg (Config): The teacher's. With ``cfg.resume`` an interrupted
            training is resumed; the student is the same as without the
            interruption.
        model (BayesianSegmentor, optional): The config's model, if it is
            built already.
        max_iters (int): Iterations. Defaults to 400.
        design (str): ``'head'``, a head on the original network, or
            ``'norms'``, a network with norms of its own, see
            :mod:`abnn_mmseg.models.students`. Defaults to ``'head'``.
        networks (int): Networks of the teacher for each image and iteration.
            Defaults to 1.
        lr (float): Learning rate of AdamW, which decays to zero. Defaults to
            2e-3.
        width (int): Channels of the student's head. Defaults to 64.
        statistics (Sequence[str]): The means that it learns. Defaults to
            all.
        images (str, optional): Folder of unlabelled images to learn from.
        train_images (bool): Learn from ``train_dataloader``. Defaults to
            True.
        validate (int): Validation images on which the student is compared
            with base and teacher. Defaults to 20.
        interval (int): Iterations between checkpoints. Defaults to 50.
        overwrite (bool): Replace a finished student. Defaults to False.
    """

    def __init__(self,
                 cfg: Config,
                 model: Optional[BayesianSegmentor] = None,
                 max_iters: int = 400,
                 design: str = 'head',
                 networks: int = 1,
                 lr: float = 2e-3,
                 width: int = 64,
                 statistics: Sequence[str] = NAMES,
                 images: Optional[str] = None,
                 train_images: bool = True,
                 validate: int = 20,
                 interval: int = 50,
                 overwrite: bool = False) -> None:
        self.cfg = cfg
        self.max_iters = max_iters
        self.design = one_of('design', design, DESIGNS)
        self.networks = networks
        self.lr = lr
        self.width = width
        self.statistics = statistics
        self.validate = validate
        self.interval = interval
        self.seed = (cfg.get('randomness') or {}).get('seed') or 0
        self.folder = Path(cfg.work_dir)
        self.path = self.folder / FILE
        if cfg.get('resume'):
            sweep(self.folder)
        elif self.path.exists() and not overwrite:
            raise FileExistsError(
                f'{self.path} is finished and would be replaced; add '
                '--resume to keep it, --overwrite to distil again, or choose '
                'another --work-dir.')
        # Building a model may change its config.
        self.settings = self._settings()
        check_options(cfg.model.posterior)
        self.loader = distillation_loader(cfg, images, train_images)
        self.dataset = DATASETS.build(self.loader.dataset)
        check_base(cfg)
        self.model = MODELS.build(cfg.model) if model is None else model
        load_base(self.model, cfg.load_from)
        self.teacher = check_teacher(self.model.posterior, networks)
        self.settings['weights'] = weights_digest(self.teacher)
        self.model.to(get_device()).eval()

    def _settings(self) -> dict[str, Any]:
        """All settings that the student depends on, as builtins."""
        known = training_settings(self.cfg)
        posterior = dict(self.cfg.model.posterior)
        if isinstance(posterior.get('members'), str):
            posterior['members'] = [posterior['members']]
        known['posterior'] = posterior
        known['load_from'] = self.cfg.get('load_from')
        known['seed'] = self.seed
        return as_stored(known)

    def run(self) -> list[dict]:
        """Distil unless the student is finished; return the table."""
        with claimed(self.folder) if is_main_process() else nullcontext():
            if not (self.cfg.get('resume') and self._is_finished()):
                self._train()
        barrier()
        [member] = read_members(self.path)
        rows = member['meta'][KEY].get('validation') or []
        if rows and is_main_process():
            atomic_write(self.folder / 'validation.json',
                         json.dumps(rows, indent=1))
        return rows

    def _is_finished(self) -> bool:
        if not self.path.is_file():
            return False
        [member] = read_members(self.path)
        check_settings(self.path, member['meta'].get('training') or {},
                       self.settings)
        return True

    def _train(self) -> None:
        torch.manual_seed(self.seed)
        student = self._new_student()
        runner = self._runner(Distillation(
            self.model, self.teacher, student, self.networks))
        cost = CostHook()
        train_and_close(runner, cost, ProgressHook('Student'))
        self._save(student.eval(), cost.seconds)

    def _new_student(self) -> Student:
        """An untrained student for the features of the model."""
        data = self.model.data_preprocessor(
            pseudo_collate([self.dataset[0]]), True)
        # The augmentations of the image have used random numbers.
        torch.manual_seed(self.seed)
        return new_student(
            self.model, data['inputs'], self.design,
            statistics=self.statistics, width=self.width,
            networks=len(self.teacher))

    def _runner(self, distillation: Distillation) -> Runner:
        folder = self.folder / 'distillation'
        resume = bool(self.cfg.get('resume'))
        if is_main_process() and not (resume and last_readable(folder)):
            for path in (folder / 'last_checkpoint', *folder.glob('*.pth')):
                path.unlink(missing_ok=True)
        return training_runner(
            distillation, self.cfg, folder, self.loader, self.seed,
            self.settings, resume, **self._runner_settings())

    def _runner_settings(self) -> dict[str, Any]:
        """Entries of the config that the student's runner replaces."""
        wrapper = {k: v for k, v in self.cfg.get('optim_wrapper', {}).items()
                   if k in ('type', 'dtype', 'loss_scale')}
        hooks = dict(self.cfg.get('default_hooks') or {})
        hooks['checkpoint'] = dict(
            type='CheckpointHook', by_epoch=False, interval=self.interval,
            max_keep_ckpts=1)
        hooks.pop('visualization', None)
        return dict(
            train_cfg=dict(type='IterBasedTrainLoop',
                           max_iters=self.max_iters),
            optim_wrapper=dict(
                wrapper, optimizer=dict(
                    type='AdamW', lr=self.lr, weight_decay=1e-4),
                # Norms change a network more than a new head does.
                paramwise_cfg=dict(custom_keys={
                    'student.network': dict(lr_mult=NORMS_RATE)}),
                clip_grad=dict(max_norm=1.)),
            param_scheduler=[dict(
                type='PolyLR', power=0.9, by_epoch=False,
                end=self.max_iters)],
            default_hooks=hooks,
            custom_hooks=[
                dict(type='StabilityHook'),
                dict(type='MemberHook', full_checkpoints=True)],
            **WITHOUT_TESTS)

    def _save(self, student: Student, seconds: float) -> None:
        rows = []
        if self.validate and self.cfg.get('val_dataloader') is not None:
            rows = validate(self.cfg, self.model, self.teacher, student,
                            self.validate)
        meta = dict(
            kind=KEY, seed=self.seed, iterations=self.max_iters,
            seconds=seconds, training=self.settings,
            versions=versions())
        meta[KEY] = dict(
            base_norms=norm_fingerprint(self.model),
            design=student.design,
            statistics=list(student.statistics),
            teacher=dict(
                type=type(self.teacher).__name__,
                networks=len(self.teacher),
                members=len(self.teacher.members),
                noise=self.teacher.noise_settings),
            validation=rows)
        if is_main_process():
            save_members(self.path, [dict(state=student_state(student),
                                          meta=meta)],
                         fingerprint(self.model))


def check_teacher(posterior: Posterior, networks: int) -> Posterior:
    """Raise ValueError for a posterior that cannot teach."""
    if posterior.is_student:
        raise ValueError('the posterior of the config is a student already; '
                         'distil the posterior that it learnt from.')
    if posterior.takes_members and posterior.trains and (
            not posterior.members and not posterior.alphas()):
        raise ValueError('the posterior of the config has neither members '
                         'nor noise; give the member files.')
    if not 1 <= networks <= len(posterior):
        raise ValueError(
            f'networks={networks} of the distillation, but the posterior '
            f'{type(posterior).__name__} has {len(posterior)}; ask for 1 to '
            f'{len(posterior)}, or give it members, samples or views.')
    return posterior
