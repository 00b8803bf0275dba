"""Check the options of a posterior before it is built."""
import inspect
from collections.abc import Mapping

from mmseg.registry import MODELS

from abnn_mmseg.utils.choices import suggestion


def check_options(cfg: Mapping) -> None:
    """Raise ValueError for an unknown option and suggest the closest one.

    Args:
        cfg (Mapping): The config of a posterior.
    """
    kind = cfg.get('type')
    found = MODELS.get(kind) if isinstance(kind, str) else kind
    if not inspect.isclass(found):
        return  # building it raises the registry's message
    known = _options(found)
    for name in cfg:
        if name not in ('type', '_scope_', *known):
            raise ValueError(
                f'model.posterior.{name} is not an option of {kind}; '
                + suggestion(name, known))


def _options(kind: type) -> list[str]:
    """Arguments of the constructors, up to the first without kwargs."""
    names: dict[str, None] = {}
    for one in kind.__mro__:
        if '__init__' not in vars(one):
            continue
        own = vars(one)['__init__']
        parameters = inspect.signature(own).parameters.values()
        names.update({
            p.name: None for p in parameters if p.name != 'self'
            and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)})
        if not any(p.kind == p.VAR_KEYWORD for p in parameters):
            break
    return list(names)
