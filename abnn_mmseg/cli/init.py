"""Write the ABNN config of your own network: a child of its config."""
import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmseg.registry import MODELS

from abnn_mmseg.cli.init_data import facts
from abnn_mmseg.cli.init_heads import (
    bare,
    change_heads,
    gives_prior,
    num_classes_of,
    resets,
    why_no_prior,
    why_reset,
)
from abnn_mmseg.cli.source import Code, Noted, comment, statement
from abnn_mmseg.engine.evaluators import (
    is_labelled,
    missing_evaluators,
    own_evaluators,
)
from abnn_mmseg.engine.hooks.audit_hook import audit, check_trainable, describe
from abnn_mmseg.engine.loading import BAYESIAN
from abnn_mmseg.members.files import load_base
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.arguments import config_file
from abnn_mmseg.utils.configs import part_of
from abnn_mmseg.utils.console import say_errors
from abnn_mmseg.utils.files import atomic_write

SAMPLES = 4
MEMBERS = 3


class Recipe(NamedTuple):
    """Settings of posterior and training.

    Args:
        posterior (dict): Options of ``BNLPosterior``.
        finetune (str): Which norms train.
        iterations (int): Iterations of a member.
        lr (float): Learning rate of SGD.
        weight_decay (float): Weight decay of SGD.
        note (str): The reason for these settings, a comment.
    """
    posterior: dict
    finetune: str
    iterations: int
    lr: float
    weight_decay: float
    note: str


# Chosen with ResNet-50 on two homes, see docs/comparison.md.
RESNET = Recipe(
    dict(alpha=0.4, samples=SAMPLES, scope=['stage2', 'stage3'],
         views=dict(flips=['horizontal'], scales=[0.75])),
    'all', 48, 0.02, 1e-4,
    'Noise in the middle of the backbone; each network sees one view.')
# For other backbones: little noise in all layers. It was measured less.
OTHER = Recipe(
    dict(alpha=0.15, samples=SAMPLES, scope='all',
         views=dict(flips=['horizontal'])),
    'scope', 200, 0.01, 5e-4,
    'A little noise in every norm; each network sees one view.')

NAME_MEMBERS = ("mmseg's own tools find trained members that are named here: "
                "members='members.pth'.")

# Switches of mmengine that replace or bypass Bayesian layers.
REPLACING = ('sync_bn', 'efficient_conv_bn_eval')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``abnn init``."""
    parser.add_argument(
        'config', help="config of your network, or 'mmseg::...'")
    parser.add_argument('checkpoint', help='its trained weights')
    parser.add_argument(
        '-o', '--out', metavar='FILE',
        help='write to this file; without it, print a config that belongs '
        'in the current folder')


def run(args: argparse.Namespace) -> None:
    """Print or write the child config, after a check of its model."""
    out = Path(args.out) if args.out else None
    if out is not None and out.exists():
        raise ValueError(f'{out} exists; choose another name for -o, or '
                         'remove it first.')
    # Configs and libraries may print, but standard output is the config.
    with redirect_stdout(sys.stderr):
        cfg = read_base(args.config)
        model = verify(
            child_config(cfg, absolute(args.config), args.checkpoint),
            args.checkpoint)
        print(describe(model))
    folder = out.parent if out else Path()
    text = child_config(
        cfg, relative(args.config, folder), args.checkpoint)
    if out is None:
        print(text, end='')
        # A redirected config may land in any folder.
        print(f'It belongs in {Path.cwd()}; -o FILE writes it for the folder '
              'of FILE.', file=sys.stderr)
    else:
        atomic_write(out, text)
        print(f'Written to {out}; next: abnn train {out}')


def read_base(config: str) -> Config:
    """The config of a plain network; raise ValueError if it is unsuitable."""
    if '::' in config:
        cfg = Config.fromstring(f'_base_ = [{config!r}]\n', '.py')
    elif not Path(config).is_file():
        raise FileNotFoundError(f'{config} does not exist; give the config '
                                'that the base was trained with.')
    else:
        cfg = config_file(config)
    kind = part_of(cfg, 'model').get('type')
    part_of(cfg, 'train_dataloader')
    if not isinstance(kind, str):
        raise ValueError(
            f'{config} is a pure Python config (read_base), which no child '
            'config can inherit from; dump it with '
            'Config.fromfile(...).dump(...) and give that file.')
    if 'posterior' in cfg.model:
        raise ValueError(f'{config} has a posterior already; give the config '
                         'that the base was trained with.')
    if bare(kind) not in BAYESIAN:
        raise ValueError(
            f'model.type={kind!r} of {config} has no Bayesian counterpart; '
            f'it must be one of {sorted(BAYESIAN)}.')
    return cfg


def verify(text: str, checkpoint: str) -> BayesianSegmentor:
    """Build the model of a child config and load its base, or raise."""
    cfg = Config.fromstring(text, '.py')
    init_default_scope(cfg.get('default_scope', 'mmseg'))
    model = MODELS.build(cfg.model)
    load_base(model, checkpoint)
    audit(model)
    check_trainable(model.train())
    return model


def absolute(config: str) -> str:
    """A path that a config in any folder may inherit from."""
    return config if '::' in config else str(Path(config).resolve())


def relative(config: str, folder: Path) -> str:
    """A path that a config in this folder may inherit from."""
    if '::' in config:
        return config
    path = Path(os.path.relpath(config, folder)).as_posix()
    return path if path.startswith('..') else f'./{path}'


def child_config(cfg: Config, base: str, checkpoint: str) -> str:
    """The text of the ABNN config over a base.

    Args:
        cfg (Config): The base config.
        base (str): What to write in ``_base_``.
        checkpoint (str): What to write in ``load_from``.
    """
    init_default_scope(cfg.get('default_scope', 'mmseg'))
    return ''.join([
        comment(f'ABNN for {Path(base).name}: {facts(cfg)}.'),
        # In mmseg's own tools, names work only after an import of abnn_mmseg.
        statement('_base_', [
            Code(f"__import__('abnn_mmseg').config_path({base!r})")
            if '::' in base else base]),
        *_imports(cfg),
        statement('load_from', checkpoint,
                  'The trained network that every member starts from.'),
        *_places(cfg),
        statement('model', _model(cfg), why_no_prior(cfg)),
        *_schedule(cfg),
        *_hooks(cfg),
        *_evaluators(cfg),
    ])


def _imports(cfg: Config) -> Iterator[str]:
    """Add this package to the imports of the base."""
    known = cfg.get('custom_imports') or {}
    names = known.get('imports') or []
    names = [names] if isinstance(names, str) else list(names)
    if 'abnn_mmseg' not in names:
        yield statement('custom_imports', dict(
            imports=[*names, 'abnn_mmseg'],
            allow_failed_imports=known.get('allow_failed_imports', False)))


def _places(cfg: Config) -> Iterator[str]:
    """Reset training options of the base that members must not have."""
    if cfg.get('work_dir'):
        yield statement('work_dir', f'{cfg.work_dir.rstrip("/")}_abnn',
                        'Members are not saved beside the base.')
    if cfg.get('resume'):
        yield statement('resume', False,
                        'The base was resumed; members start afresh.')
    for name in REPLACING:
        if cfg.get(name):
            yield statement(name, None,
                            'It would replace or bypass Bayesian layers.')


def _model(cfg: Config) -> dict:
    model = cfg.model
    recipe = recipe_for(model)
    child: dict = dict(
        type=BAYESIAN[bare(model.type)],
        prediction=Noted(
            'Classes and probabilities stay those of the base; uncertainty '
            'maps come from all networks.', 'base'),
        posterior=Noted(
            f"{recipe.note} {NAME_MEMBERS}",
            dict(type='BNLPosterior', **recipe.posterior)))
    if recipe.finetune != 'scope':
        child['finetune'] = recipe.finetune
    if 'data_preprocessor' not in model and cfg.get('data_preprocessor'):
        child['data_preprocessor'] = Code('_base_.data_preprocessor')
    child.update(resets(model))
    for name in ('decode_head', 'auxiliary_head'):
        change = change_heads(model.get(name) or [], name, num_classes_of(cfg))
        if change and name in child:
            change = {**child[name], **change}
        if change:
            child[name] = change
    for name in resets(model):
        note = why_reset(f'{name}={child[name]}')
        child[name] = Noted(note, child[name])
    if gives_prior(cfg):
        note = 'Each member favours random classes of its own.'
        child['decode_head'] = Noted(note, child['decode_head'])
    return child


def recipe_for(model: dict) -> Recipe:
    """The recipe of a network, by its backbone."""
    backbone = model.get('backbone') or {}
    is_resnet = bare(backbone.get('type', '')).startswith('ResN')
    norm = bare((backbone.get('norm_cfg') or dict(type='BN'))['type'])
    whole = backbone.get('num_stages', 4) >= 3
    return RESNET if is_resnet and 'BN' in norm and whole else OTHER


def _schedule(cfg: Config) -> Iterator[str]:
    """Optimizer, decay and loop, whatever those of the base were."""
    recipe = recipe_for(cfg.model)
    known = cfg.get('optim_wrapper') or {}
    wrapper = dict(type='OptimWrapper')
    if bare(known.get('type', '')) == 'AmpOptimWrapper':
        wrapper = {name: known[name] for name in ('type', 'dtype')
                   if name in known}
    yield statement(
        'optim_wrapper', _fresh(cfg, 'optim_wrapper', **wrapper,
                                optimizer=dict(
                                    type='SGD', lr=recipe.lr, momentum=0.9,
                                    nesterov=True,
                                    weight_decay=recipe.weight_decay)),
        'Only norms train; their weight decay is the Gaussian prior.')
    yield statement('param_scheduler', [dict(
        type='PolyLR', power=0.9, end=recipe.iterations, by_epoch=False)])
    yield statement(
        'train_cfg', _fresh(
            cfg, 'train_cfg', type='MemberTrainLoop', members=MEMBERS,
            max_iters=recipe.iterations,
            val_begin=recipe.iterations + 1),
        'Members are validated when they are finished.')
    sampler = cfg.train_dataloader.get('sampler') or {}
    if bare(sampler.get('type', 'DefaultSampler')) == 'DefaultSampler':
        yield statement(
            'train_dataloader', dict(sampler=_fresh(
                cfg.train_dataloader, 'sampler', type='InfiniteSampler',
                shuffle=True)),
            'Iterations instead of epochs.')
    if (cfg.get('log_processor') or {}).get('by_epoch', True):
        yield statement('log_processor', _over(
            cfg, 'log_processor', by_epoch=False))


def _hooks(cfg: Config) -> Iterator[str]:
    known = cfg.get('default_hooks') or {}
    hooks = {}
    if (known.get('checkpoint') or {}).get('save_best'):
        # Members are not validated while they train.
        hooks['checkpoint'] = dict(save_best=None)
    if (known.get('logger') or {}).get('log_metric_by_epoch', True):
        hooks['logger'] = _over(
            known, 'logger', type='LoggerHook', log_metric_by_epoch=False)
    if hooks:
        yield statement('default_hooks', _over(cfg, 'default_hooks', **hooks))
    custom = cfg.get('custom_hooks') or []
    prompt = [_at_once(hook) for hook in custom]
    if prompt != list(custom):
        yield statement('custom_hooks', prompt,
                        'The average starts at once, not after the base\'s '
                        'first iterations.')


def _at_once(hook: dict) -> dict:
    """An EMAHook that starts with the first step of a member."""
    if bare(hook['type']) != 'EMAHook':
        return hook
    return {name: value for name, value in hook.items()
            if name not in ('begin_iter', 'begin_epoch')}


def _evaluators(cfg: Config) -> Iterator[str]:
    """The base's metrics, and ours that the data has labels for."""
    for split in ('val', 'test'):
        name = f'{split}_evaluator'
        if not cfg.get(name) or not is_labelled(cfg, split):
            continue
        own = [_own_scope(cfg, metric)
               for metric in own_evaluators(cfg, split)]
        yield statement(
            name, own + missing_evaluators(cfg, split),
            'Its own metrics, and those of probabilities and maps.'
            if split == 'val' else '')


def _own_scope(cfg: Config, part: dict) -> dict:
    """A part without the ``_scope_`` that ``mmseg::`` adds to it."""
    scope = cfg.get('default_scope', 'mmseg')
    return {name: value for name, value in part.items()
            if (name, value) != ('_scope_', scope)}


def _fresh(known: dict, key: str, **values) -> dict:
    """Values that replace those of the base, if it has any."""
    return dict(_delete_=True, **values) if key in known else values


def _over(known: dict, key: str, **values) -> dict:
    """Values that differ from those of the base."""
    own = known.get(key)
    if own is None:
        return _fresh(known, key, **values)
    return {name: value for name, value in values.items()
            if name not in own or own[name] != value}


if __name__ == '__main__':
    main_parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(main_parser)
    with say_errors():
        run(main_parser.parse_args())
