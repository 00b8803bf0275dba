"""Write the ABNN config of your own network: a child of its config."""
import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Optional

from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmseg.registry import DATASETS, MODELS
from torch import nn

from abnn_mmseg.cli.source import Code, Noted, comment, statement
from abnn_mmseg.datasets import AnomalySegDataset
from abnn_mmseg.engine.hooks.audit_hook import audit, check_trainable, describe
from abnn_mmseg.engine.loading import BAYESIAN
from abnn_mmseg.engine.test_sets import part_of
from abnn_mmseg.members.files import load_base
from abnn_mmseg.models.segmentor import MASK_HEADS
from abnn_mmseg.utils.console import say_errors
from abnn_mmseg.utils.files import atomic_write

# The recipe.
ALPHA = 0.15
SCOPE: Any = 'all'
SAMPLES = 4
VIEWS: Optional[dict] = None
MEMBERS = 3
ITERATIONS = 200
LEARNING_RATE = 0.01
OPTIMIZER = dict(
    type='SGD', lr=LEARNING_RATE, momentum=0.9, nesterov=True,
    weight_decay=5e-4)
DECAY = dict(type='PolyLR', power=0.9, end=ITERATIONS, by_epoch=False)
# How often a member is saved while it trains.
INTERVAL = 50

LOSS = 'RandomPriorCrossEntropyLoss'
# What our loss has of mmseg's, and the defaults that need not be written.
LOSS_OPTIONS = dict(
    use_sigmoid=False, class_weight=None, loss_weight=1.0,
    loss_name='loss_ce')
IOU = dict(type='IoUMetric', iou_metrics=['mIoU'])
CALIBRATION = dict(type='CalibrationMetric')
SELECTIVE = dict(type='SelectiveMetric', scores=['entropy'])
ANOMALY = dict(
    type='AnomalyMetric', scores=['msp', 'entropy', 'mutual_information'])
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
    """Print or write the child config, once its model is known to work."""
    out = Path(args.out) if args.out else None
    if out is not None and out.exists():
        raise ValueError(f'{out} exists; choose another name for -o, or '
                         'remove it first.')
    # Configs and libraries may print; standard output is the config.
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
    else:
        atomic_write(out, text)


def read_base(config: str) -> Config:
    """The config of a plain network, or a sentence why it cannot be used."""
    if '::' in config:
        cfg = Config.fromstring(f'_base_ = [{config!r}]\n', '.py')
    else:
        cfg = Config.fromfile(config)
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


def verify(text: str, checkpoint: str) -> nn.Module:
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
    """The same for a config in this folder."""
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
        statement('_base_', [base]),
        *_imports(cfg),
        statement('load_from', checkpoint,
                  'The trained network that every member starts from.'),
        statement('num_members', MEMBERS),
        *_places(cfg),
        statement('model', _model(cfg), _why_no_prior(cfg)),
        *_schedule(cfg),
        *_hooks(cfg),
        *_evaluators(cfg),
    ])


def facts(cfg: Config) -> str:
    """What the base is, in a few words for the first comment."""
    number = _num_classes(cfg)
    classes = f'{number} classes' if number else 'classes of its head'
    if _main_head(cfg).get('out_channels') == 1:
        classes = 'a binary head'
    size = _crop(cfg)
    trained = f'trained on crops of {size[0]}x{size[1]}' if size else (
        'trained on the images of its pipeline')
    test = cfg.model.get('test_cfg') or {}
    if test.get('mode') == 'slide':
        window = test['crop_size']
        tested = f'tested in windows of {window[0]}x{window[1]}'
    else:
        size = _whole(cfg)
        tested = 'tested on whole images' + (
            f' of {size[1]}x{size[0]}' if size else '')
    return f'{classes}, {trained}, {tested}, like the base'


def _crop(cfg: Config) -> Optional[tuple]:
    """Height and width of what the base is trained on."""
    preprocessor = cfg.model.get('data_preprocessor') or {}
    crops = [step.get('crop_size') for step in _pipeline(cfg, 'train')]
    sizes = [preprocessor.get('size'), *crops]
    pairs = [size for size in sizes if isinstance(size, (tuple, list))]
    return tuple(pairs[0]) if pairs else None


def _whole(cfg: Config) -> Optional[tuple]:
    """Width and height that test images are resized to."""
    scales = [step.get('scale') for step in _pipeline(cfg, 'test')]
    pairs = [scale for scale in scales
             if isinstance(scale, (tuple, list)) and len(scale) == 2]
    return tuple(pairs[-1]) if pairs else None


def _imports(cfg: Config) -> Iterator[str]:
    """Ours beside those of the base: a list replaces the base's."""
    known = cfg.get('custom_imports') or {}
    names = known.get('imports') or []
    names = [names] if isinstance(names, str) else list(names)
    if 'abnn_mmseg' not in names:
        yield statement('custom_imports', dict(
            imports=[*names, 'abnn_mmseg'],
            allow_failed_imports=known.get('allow_failed_imports', False)))


def _places(cfg: Config) -> Iterator[str]:
    """What a member must not take over from the training of the base."""
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
    posterior = dict(
        type='BNLPosterior', alpha=ALPHA, samples=SAMPLES, scope=SCOPE)
    if VIEWS is not None:
        posterior['views'] = VIEWS
    child: dict = dict(
        type=BAYESIAN[bare(model.type)],
        posterior=Noted(
            f'alpha: noise on gamma; {SAMPLES} draws for each member.',
            posterior))
    if 'data_preprocessor' not in model and cfg.get('data_preprocessor'):
        child['data_preprocessor'] = Code('_base_.data_preprocessor')
    child.update(_resets(model))
    for name in ('decode_head', 'auxiliary_head'):
        change = _heads(model.get(name) or [], name, _num_classes(cfg))
        if change and name in child:
            change = {**child[name], **change}
        if change:
            child[name] = change
    for name in _resets(model):
        note = _why_reset(f'{name}={child[name]}')
        child[name] = Noted(note, child[name])
    if _gives_prior(cfg):
        note = 'Each member favours random classes of its own.'
        child['decode_head'] = Noted(note, child['decode_head'])
    return child


def _resets(part: dict) -> dict:
    """Changes that switch pretrained weights and frozen stages off."""
    changes: dict = {}
    for name, value in part.items():
        if name == 'pretrained' and value:
            changes[name] = False if value is True else None
        elif name == 'init_cfg' and 'Pretrained' in str(value):
            changes[name] = None
        elif name == 'frozen_stages' and isinstance(value, int) and value >= 0:
            changes[name] = -1
        elif isinstance(value, dict) and _resets(value):
            changes[name] = _resets(value)
    return changes


def _why_reset(change: str) -> str:
    reasons = []
    if 'pretrained' in change or 'init_cfg' in change:
        reasons.append('load_from has all weights')
    if 'frozen_stages' in change:
        reasons.append('norms of all stages train')
    return '; '.join(reasons) + '.'


def _heads(part: Any, name: str, classes: Optional[int]) -> Any:
    """The change of a head, or of all heads of a list; empty for none."""
    if isinstance(part, dict):
        return _prior(part, classes)
    if not any(_prior(head, classes) for head in part):
        return []
    # A list replaces the base's list, so it names every head.
    changes = []
    for number, head in enumerate(part):
        own = Code(f'_base_.model.{name}[{number}]')
        change = _without_delete(_prior(head, classes))
        changes.append({'*': own, **change} if change else own)
    return changes


def _gives_prior(cfg: Config) -> bool:
    return bool(_prior(_main_head(cfg), _num_classes(cfg)))


def _why_no_prior(cfg: Config) -> str:
    """A comment for a head that keeps its own loss, empty for others."""
    head = _main_head(cfg)
    if _gives_prior(cfg):
        return ''
    kind = bare(head['type'])
    reason = ('matches masks' if _is_kind(head, *MASK_HEADS) else
              'has no CrossEntropyLoss of its classes')
    return (f'{kind} {reason}, so it keeps its losses and gets no random '
            'class prior: members differ by noise and order of images.')


def _prior(head: dict, classes: Optional[int]) -> dict:
    """The change that gives a head, or a head inside it, the random prior.

    Heads for something else than the classes keep their loss, e.g. STDC's
    for boundaries.
    """
    if _is_kind(head, *MASK_HEADS):
        return {}
    nested = {
        name: _prior(part, classes)
        for name, part in head.items()
        if isinstance(part, dict) and 'loss_decode' in part
    }
    nested = {name: change for name, change in nested.items() if change}
    if nested or head.get('num_classes', classes) != classes:
        return nested
    loss = head.get('loss_decode')
    if isinstance(loss, (list, tuple)):
        losses = [_random_prior(part) or part for part in loss]
        return dict(loss_decode=losses) if losses != list(loss) else {}
    if loss is None:
        is_ours = _is_kind(head, 'BaseDecodeHead')
        return dict(loss_decode=dict(type=LOSS)) if is_ours else {}
    ours = _random_prior(loss)
    return dict(loss_decode=dict(_delete_=True, **ours)) if ours else {}


def _random_prior(loss: dict) -> Optional[dict]:
    """Our loss in the place of mmseg's, None in that of another one."""
    if bare(loss['type']) != 'CrossEntropyLoss' or loss.get('use_mask'):
        return None
    options = {
        name: loss[name]
        for name, default in LOSS_OPTIONS.items()
        if loss.get(name, default) != default
    }
    return dict(type=LOSS, **options)


def _without_delete(change: dict) -> dict:
    """mmengine deletes nothing inside lists, so a change must not ask."""
    return {
        name: ({k: v for k, v in value.items() if k != '_delete_'}
               if isinstance(value, dict) else value)
        for name, value in change.items()
    }


def _main_head(cfg: Config) -> dict:
    """The head that predicts: the last one of a cascade."""
    head = cfg.model.decode_head
    return head if isinstance(head, dict) else head[-1]


def _num_classes(cfg: Config) -> Optional[int]:
    """Of that head, or of the one inside it (K-Net)."""
    head = _main_head(cfg)
    inner = [part for part in head.values() if isinstance(part, dict)]
    known = [part['num_classes'] for part in (head, *inner)
             if 'num_classes' in part]
    return known[0] if known else None


def _is_kind(head: dict, *names: str) -> bool:
    """Whether a head is of a class with one of these names."""
    kind = MODELS.get(head['type'])
    return kind is not None and any(
        part.__name__ in names for part in kind.__mro__)


def _schedule(cfg: Config) -> Iterator[str]:
    """Optimizer, decay and loop, whatever those of the base were."""
    known = cfg.get('optim_wrapper') or {}
    wrapper = dict(type='OptimWrapper')
    if bare(known.get('type', '')) == 'AmpOptimWrapper':
        wrapper = {name: known[name] for name in ('type', 'dtype')
                   if name in known}
    yield statement(
        'optim_wrapper', _fresh(cfg, 'optim_wrapper', **wrapper,
                                optimizer=OPTIMIZER),
        'Only norms train; their weight decay is the Gaussian prior.')
    yield statement('param_scheduler', [DECAY])
    yield statement(
        'train_cfg', _fresh(
            cfg, 'train_cfg', type='IterBasedTrainLoop',
            max_iters=ITERATIONS, val_begin=ITERATIONS + 1),
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
    hooks = dict(checkpoint=_over(
        known, 'checkpoint', type='CheckpointHook', by_epoch=False,
        interval=INTERVAL, max_keep_ckpts=1))
    if (known.get('checkpoint') or {}).get('save_best'):
        # Nothing is validated while members train.
        hooks['checkpoint']['save_best'] = None
    if (known.get('logger') or {}).get('log_metric_by_epoch', True):
        hooks['logger'] = _over(
            known, 'logger', type='LoggerHook', log_metric_by_epoch=False)
    yield statement('default_hooks', _over(cfg, 'default_hooks', **hooks),
                    'Training with --resume goes on from the last of these.')
    custom = cfg.get('custom_hooks') or []
    prompt = [_at_once(hook) for hook in custom]
    if prompt != list(custom):
        yield statement('custom_hooks', prompt,
                        'The average starts at once, not after the base\'s '
                        'first iterations.')


def _at_once(hook: dict) -> dict:
    """A hook whose average does not begin after the member's last step."""
    if bare(hook['type']) != 'EMAHook':
        return hook
    return {name: value for name, value in hook.items()
            if name not in ('begin_iter', 'begin_epoch')}


def _evaluators(cfg: Config) -> Iterator[str]:
    """The base's metrics, and those of ours that the data has labels for."""
    for split in ('val', 'test'):
        name = f'{split}_evaluator'
        if not cfg.get(name) or not _is_labelled(cfg, split):
            continue
        own = cfg[name]
        own = [own] if isinstance(own, dict) else list(own)
        ours = [IOU, CALIBRATION]
        if split == 'test':
            ours.append(SELECTIVE)
            if _has_unknown(cfg):
                ours.append(ANOMALY)
        known = {bare(metric['type']) for metric in own}
        yield statement(
            name, own + [m for m in ours if m['type'] not in known],
            'Its own metrics, and those of probabilities and maps.'
            if split == 'val' else '')


def _is_labelled(cfg: Config, split: str) -> bool:
    evaluator = cfg[f'{split}_evaluator']
    many = [evaluator] if isinstance(evaluator, dict) else evaluator
    return not any(metric.get('format_only') for metric in many) and any(
        'Annotation' in str(step.get('type'))
        for step in _pipeline(cfg, split))


def _has_unknown(cfg: Config) -> bool:
    """Whether the test data labels what is out of distribution."""
    kind = DATASETS.get(_dataset(cfg, 'test').get('type', ''))
    return kind is not None and issubclass(kind, AnomalySegDataset)


def _dataset(cfg: Config, split: str) -> dict:
    """The dataset of a loader, inside whatever wraps it."""
    dataset = (cfg.get(f'{split}_dataloader') or {}).get('dataset') or {}
    while 'dataset' in dataset or 'datasets' in dataset:
        dataset = dataset.get('dataset') or dataset['datasets'][0]
    return dataset


def _pipeline(cfg: Config, split: str) -> list:
    return list(_dataset(cfg, split).get('pipeline') or [])


def _fresh(known: dict, key: str, **values) -> dict:
    """Values instead of the base's; the mark is an error where it has none."""
    return dict(_delete_=True, **values) if key in known else values


def _over(known: dict, key: str, **values) -> dict:
    """The values that the base, which may have None there, does not have."""
    own = known.get(key)
    if own is None:
        return _fresh(known, key, **values)
    return {name: value for name, value in values.items()
            if name not in own or own[name] != value}


def bare(kind: str) -> str:
    """The name of a registered class without its scope."""
    return str(kind).rpartition('.')[2]


if __name__ == '__main__':
    main_parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(main_parser)
    with say_errors():
        run(main_parser.parse_args())
