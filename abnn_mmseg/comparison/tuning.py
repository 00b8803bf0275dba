"""Choose alpha, scope and learning rate for a user's own network.

Labelled validation images need not show anything unknown: things are pasted
into them (:class:`~abnn_mmseg.datasets.pasting.PasteUnknown`, the same things
in every trial), and settings are judged by how well entropy finds these and
the network's own mistakes. A setting may cost the noise-free members half a
point of mIoU, no more.
"""
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmseg.registry import MODELS

from abnn_mmseg.comparison.search import METRICS, MIOU_LOSS, Search
from abnn_mmseg.engine.test_sets import part_of
from abnn_mmseg.models.bnl import bayesian_layers
from abnn_mmseg.models.scopes import resolve
from abnn_mmseg.utils.configs import find_config
from abnn_mmseg.utils.files import atomic_write

ALPHA, SCOPE = 'model.posterior.alpha', 'model.posterior.scope'
RATE = 'optim_wrapper.optimizer.lr'
FINETUNE = 'model.finetune'
MIDDLE = ['stage2', 'stage3']
# Found by entropy: what was pasted, and the network's own mistakes.
PROXIES = ('ood/pooled/entropy/AUROC', 'sel/pooled/entropy/AUROC')


def write_search(config: str, base: str, folder: str, images: int,
                 seed: int = 0) -> Path:
    """Write the config of the search, an ordinary child of the user's.

    Args:
        config (str): ABNN config whose validation images have labels.
        base (str): The trained network.
        folder (str): Where the config, trainings and rows are kept.
        images (int): So many of the validation images, evenly spread.
        seed (int): Of what is pasted. Defaults to 0.
    """
    config = str(Path(find_config(config)).resolve())
    cfg = Config.fromfile(config)
    if 'posterior' not in part_of(cfg, 'model'):
        raise ValueError(f'{config} has no posterior; write an ABNN config '
                         'of it first, with abnn init.')
    if not Path(base).is_file():
        raise FileNotFoundError(f'{base} does not exist; give the trained '
                                'network that members start from.')
    dataset = part_of(cfg, 'val_dataloader').dataset
    if 'pipeline' not in dataset:
        raise ValueError(f'val_dataloader.dataset of {config} has no '
                         'pipeline; name the dataset itself, without a '
                         'wrapper.')
    lines = dict(
        _base_=[config],
        load_from=str(Path(base).resolve()),
        work_dir=str(Path(folder).resolve()),
        val_dataloader=dict(dataset=dict(
            pipeline=with_pasted(dataset.pipeline, seed))),
        search=dict(images=images, members=2, train=grid(cfg)))
    path = Path(folder) / 'search.py'
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, ''.join(
        f'{name} = {value!r}\n' for name, value in lines.items()))
    return path


def with_pasted(pipeline: Sequence[dict], seed: int) -> list[dict]:
    """A test pipeline whose images have unknown things pasted in."""
    steps = [dict(step) for step in pipeline]
    packing = [i for i, step in enumerate(steps)
               if step['type'].rpartition('.')[2] in (
                   'PackSegInputs', 'PackAnomalyInputs')]
    if not packing:
        raise ValueError('the pipeline of val_dataloader packs nothing; end '
                         "it with dict(type='PackSegInputs').")
    last = packing[-1]
    steps[last]['type'] = 'PackAnomalyInputs'
    return [*steps[:last], dict(type='PasteUnknown', seed=seed),
            *steps[last:]]


def grid(cfg: Config) -> list[dict[str, list]]:
    """Settings to try: little noise everywhere, more in the middle."""
    init_default_scope(cfg.get('default_scope', 'mmseg'))
    names = bayesian_layers(MODELS.build(cfg.model))
    rates = [0.005, 0.02]
    settings: list[dict[str, list]] = [
        {SCOPE: ['all'], ALPHA: [0.15], 'train_cfg.max_iters': [0]},
        {SCOPE: ['all'], ALPHA: [0.15], FINETUNE: ['all'], RATE: rates},
    ]
    try:
        resolve(names, MIDDLE)
    except ValueError:
        return settings
    return [*settings, {
        SCOPE: [MIDDLE], ALPHA: [0.2, 0.4], FINETUNE: ['all'], RATE: rates}]


def tune(config: str, base: str, folder: str, images: int,
         device: Optional[str] = None) -> list[dict]:
    """All trials as lines of a table, the chosen one first.

    Args:
        config, base, folder, images: See :func:`write_search`.
        device (str, optional): Where to test.
    """
    path = write_search(config, base, folder, images)
    metrics = [*METRICS, dict(type='SelectiveMetric', scores=('entropy', ))]
    trials = Search(str(path), str(path.with_name('trials.jsonl')),
                    device=device, metrics=metrics).run()
    return judged(trials)


def judged(trials: Sequence[dict]) -> list[dict]:
    """Lines of a table, by the mean of both AUROC, the best first.

    Settings whose noise-free members lose more than half a point of mIoU
    against the base, which is the first trial, come after all others.
    """
    base = trials[0]['metrics']
    lines = []
    key = _settings_of
    for settings, group in itertools.groupby(trials, key):
        rows = {trial['variant']: trial for trial in group}
        # Maps are the same for both predictions; accuracy is the centre's.
        metrics = rows.get('centre', next(iter(rows.values())))['metrics']
        pasted, mistakes = (metrics[name] for name in PROXIES)
        kept = metrics['seg/mIoU'] >= base['seg/mIoU'] - MIOU_LOSS
        lines.append({
            'setting': settings or 'base', 'mIoU': metrics['seg/mIoU'],
            'AUROC pasted': pasted, 'AUROC mistakes': mistakes,
            'mean': (pasted + mistakes) / 2,
            'keeps': 'yes' if kept else 'no'
        })
    return sorted(lines, key=lambda x: (x['keeps'] == 'no', -x['mean']))


def _settings_of(trial: dict) -> str:
    options: dict[str, Any] = {**trial['train'], **trial['test']}
    return ' '.join(f'{name}={value!r}'.replace(' ', '')
                    for name, value in options.items())
