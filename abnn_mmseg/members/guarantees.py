"""Store and load guarantees, in member files or in files of their own."""
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Union

from abnn_mmseg.models.posteriors import Posterior
from abnn_mmseg.uncertainty.guarantees import Guarantee
from abnn_mmseg.utils.checkpoints import bytes_of, is_counter, is_prior
from abnn_mmseg.utils.files import atomic_write

FORMAT = 'abnn_mmseg.guarantees'
VERSION = 1
KEY = 'guarantees'


def load_guarantees(posterior: Posterior, members: Sequence[dict]) -> None:
    """Give a posterior the guarantees that hold for its weights.

    They are stored with the members, if all members agree, and in the file
    that the segmentor's config names.

    Args:
        posterior (Posterior): With its members.
        members (Sequence[dict]): These, with ``meta``.
    """
    stored = [m['meta'].get(KEY) or [] for m in members]
    known = stored[0] if stored and all(s == stored[0] for s in stored) else []
    file = posterior.model.guarantee_file
    if file is not None:
        known = merged(known, read_guarantees(file))
    if known:
        weights = weights_digest(posterior)
        known = [g for g in known if g['weights'] == weights]
    posterior.guarantees = [Guarantee.from_dict(g) for g in known]


def merged(known: Sequence[dict], new: Sequence[dict]) -> list[dict]:
    """Join guarantees; a new one replaces an old one it is equal to.

    Equal means of the same risk, for the same weights and settings.
    """

    def key(guarantee: dict) -> tuple:
        """Two guarantees with the same key replace each other."""
        return tuple(guarantee[k] for k in ('risk', 'weights', 'settings'))

    replaced = {key(guarantee) for guarantee in new}
    return [*(g for g in known if key(g) not in replaced), *new]


def weights_digest(posterior: Posterior) -> str:
    """A digest of all weights of the networks, members included."""
    digest = hashlib.sha256()
    for state in (posterior.model.state_dict(), *posterior.weights()):
        digest.update(f'{len(state)}'.encode())
        for name, value in sorted(state.items()):
            if not is_prior(name) and not is_counter(name):
                digest.update(name.encode())
                digest.update(bytes_of(value))
    return digest.hexdigest()[:16]


def read_guarantees(path: Union[str, Path]) -> list[dict]:
    """The content of a file that :func:`write_guarantees` wrote."""
    try:
        content = json.loads(Path(path).read_text(encoding='utf-8'))
    except FileNotFoundError:
        raise FileNotFoundError(
            f'the file {path} that model.guarantees names does not exist; '
            'make it with `abnn certify`, or remove the setting.') from None
    except ValueError as error:
        raise ValueError(f'{path} is not a file of guarantees ({error}); '
                         'make it again with `abnn certify`.') from error
    if not isinstance(content, dict) or content.get('format') != FORMAT or (
            content.get('version') != VERSION):
        raise ValueError(f'{path} is not a file of guarantees of version '
                         f'{VERSION}; make it again with `abnn certify`.')
    return content[KEY]


def write_guarantees(path: Union[str, Path], new: Sequence[dict]) -> None:
    """Add guarantees to a file, which is created if it does not exist."""
    known = read_guarantees(path) if Path(path).exists() else []
    content = {'format': FORMAT, 'version': VERSION, KEY: merged(known, new)}
    atomic_write(path, json.dumps(content, indent=2) + '\n')
