"""Datasets and posteriors that a config names for a test.

::

    test_sets = dict(
        test_id=dict(split='test_id'),
        road=dict(type='BinaryAnomalyDataset', data_root=..., ...))
    posteriors = dict(
        base=dict(type='DeterministicPosterior'),
        ABNN=dict(),
        ABNN_32=dict(samples=32))

An entry with a ``type`` is complete. One without overrides parts of the
config's own ``test_dataloader.dataset`` or ``model.posterior``.
"""
import copy
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Optional

from mmengine.config import Config, ConfigDict

from abnn_mmseg.engine.evaluators import OURS, test_evaluators
from abnn_mmseg.engine.loading import bayesian_model_cfg
from abnn_mmseg.utils.configs import find_config, part_of


class TestSet(NamedTuple):
    """The data and the metrics of a test loop."""
    dataloader: ConfigDict
    evaluator: Sequence[ConfigDict]

    def with_plots(self, folder: Optional[str]) -> list:
        """The metrics; those of this package save curves in the folder."""
        metrics = copy.deepcopy(list(self.evaluator))
        for metric in metrics:
            if folder and metric.type in OURS:
                metric.plot_dir = folder
        return metrics


def own_test(cfg: Config) -> TestSet:
    """The test dataloader and evaluator of a config.

    If it names no metric of this package, those that its labels allow are
    added.
    """
    dataloader = copy.deepcopy(part_of(cfg, 'test_dataloader'))
    return TestSet(dataloader, test_evaluators(cfg) or [
        part_of(cfg, 'test_evaluator')])


def choose_test_sets(cfg: Config,
                     names: Optional[Sequence[str]]) -> dict[str, TestSet]:
    """Test sets by name.

    Args:
        cfg (Config): With ``test_sets``, unless names are files.
        names (Sequence[str], optional): Names in ``test_sets``, or config
            files whose test dataloader and evaluator are used. An empty list
            is all of ``test_sets``. Defaults to the test dataset alone.
    """
    if names is None:
        return dict(test=own_test(cfg))
    known = cfg.get('test_sets') or {}
    chosen = {}
    for name in names or _all(known, 'test_sets', '--datasets'):
        if name in known:
            own = own_test(cfg)
            own.dataloader.dataset = _override(own.dataloader.dataset,
                                               known[name], 'pipeline')
            chosen[name] = own
        elif Path(find_config(name)).is_file():
            other = Config.fromfile(find_config(name))
            chosen[Path(other.filename).stem] = own_test(other)
        else:
            raise ValueError(
                f'--datasets {name} is neither in test_sets of the config '
                f'({", ".join(known) or "it has none"}) nor a config file; '
                'write one of these, or the path of a dataset config.')
    return chosen


def choose_posteriors(cfg: Config, names: Optional[Sequence[str]]
                      ) -> dict[str, ConfigDict]:
    """Configs of posteriors by name.

    Args:
        cfg (Config): Without ``posteriors`` there are ``base``, the network
            alone, and the model's own posterior, named by its type.
        names (Sequence[str], optional): An empty list is all. Defaults to
            the model's own alone.
    """
    own = bayesian_model_cfg(cfg).posterior
    own_name = own.type.replace('Posterior', '')
    if names is None:
        return {own_name: own}
    known = cfg.get('posteriors') or {
        'base': dict(type='DeterministicPosterior'),
        **({own_name: {}} if 'posterior' in cfg.model else {})
    }
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f'--posteriors {unknown[0]} is not in posteriors of the config; '
            f'write some of {", ".join(known)}.')
    return {name: _override(own, known[name]) for name in names or known}


def _all(known: dict, key: str, option: str) -> Sequence[str]:
    if not known:
        raise ValueError(f'{option} has no names, and the config has no '
                         f'{key}; write some in either.')
    return list(known)


def _override(own: ConfigDict, entry: dict, *shared: str) -> ConfigDict:
    """Fill in what an entry leaves out from the config's own.

    If the entry has a type, only the ``shared`` keys are filled in.
    """
    kept = {k: own[k] for k in shared if k in own} if 'type' in entry else own
    return ConfigDict(copy.deepcopy({**kept, **entry}))
