"""Label sets and alarms of a prediction, if guarantees hold for it."""
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

from mmengine.structures import PixelData
from mmseg.structures import SegDataSample

from abnn_mmseg.compat import Normalization
from abnn_mmseg.models.windows import slides
from abnn_mmseg.uncertainty.guarantees import (
    SET_RISKS,
    Guarantee,
    class_probability,
)

if TYPE_CHECKING:
    from abnn_mmseg.models.posteriors import Posterior
    from abnn_mmseg.models.segmentor import BayesianSegmentor


def settings_of(model: 'BayesianSegmentor', posterior: 'Posterior', risk: str,
                prediction: str, temperature: float) -> str:
    """All settings that a guarantee depends on, as text."""
    parts = [posterior.answer_settings]
    if risk in SET_RISKS:
        parts.append(f'prediction {prediction}, temperature {temperature:g}')
    test_cfg: Any = model.test_cfg or {}
    if slides(test_cfg):
        parts.append(f'windows {tuple(test_cfg.crop_size)} every '
                     f'{tuple(test_cfg.stride)}')
    colours = Normalization(model.data_preprocessor)
    if colours.mean is not None and colours.std is not None:
        parts += [f'{name} {"/".join(f"{v:g}" for v in values.flatten())}'
                  for name, values in (('mean', colours.mean),
                                       ('std', colours.std))]
    return ', '.join(parts)


def guarantees_that_hold(model: 'BayesianSegmentor', posterior: 'Posterior',
                         prediction: str,
                         temperature: float) -> list[Guarantee]:
    """The guarantees of a posterior that hold for these settings."""
    settings = {
        risk: settings_of(model, posterior, risk, prediction, temperature)
        for risk in {g.risk for g in posterior.guarantees}
    }
    return [g for g in posterior.guarantees
            if g.settings == settings[g.risk]
            and g.score in (None, *model.scores)]


def set_guaranteed(sample: SegDataSample,
                   guarantees: Sequence[Guarantee]) -> None:
    """Write label sets and alarms into a sample, by risk.

    They are in the field ``guaranteed``; the meta information ``guarantees``
    describes them.
    """
    maps = {name: map_[0] for name, map_ in sample.uncertainty.items()}
    probability = class_probability(sample.seg_logits.data)
    sample.set_data(dict(guaranteed=PixelData(
        **{g.risk: g.apply(probability, maps) for g in guarantees})))
    sample.set_metainfo(dict(
        guarantees=[g.to_dict() for g in guarantees]))


def current_guarantees(model: 'BayesianSegmentor') -> list[Guarantee]:
    """The guarantees that hold for the current settings of a segmentor."""
    return guarantees_that_hold(model, model.posterior, model.prediction,
                                model.current_temperature())


def why_no_guarantee(model: 'BayesianSegmentor',
                     risks: Sequence[str]) -> Optional[str]:
    """Why no guarantee of these risks holds; None if one does."""
    known = [g for g in model.posterior.guarantees if g.risk in risks]
    if set(known) & set(current_guarantees(model)):
        return None
    if not known:
        return ('none is stored for these weights; make one with `abnn '
                f'certify CONFIG BASE MEMBERS --risk {risks[0]} --level 0.05`')
    first = known[0]
    now = settings_of(model, model.posterior, first.risk, model.prediction,
                      model.current_temperature())
    if first.settings == now:
        return (f'it needs the score {first.score!r}, which is not among the '
                f"segmentor's scores {list(model.scores)}")
    return (f'the one that is stored holds for [{first.settings}], but the '
            f'model is set to [{now}]; go back to these settings, or make '
            'one for the new ones with `abnn certify`')
