"""What each raw label id of a dataset means: a class, unknown, or void."""
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

import numpy as np

IGNORE = 255
IN_DISTRIBUTION, OOD, VOID = 0, 1, 255
# Marks raw ids that are not in a protocol; loading them is an error.
UNKNOWN = 254


@dataclass(frozen=True)
class LabelProtocol:
    """What each raw id of a label file means.

    Every raw id is a class of the model, out of distribution (OOD), or void.
    Any other id is an error, so that no label is remapped silently.

    Args:
        name (str): Name of the protocol in tables and logs.
        classes (Sequence[str]): Class names in the order of the train ids.
        ids (Sequence[int | Sequence[int]]): Raw id (or ids) of each class.
            An empty sequence means that the class never occurs in the ground
            truth, such as an output of the model that is OOD here.
        palette (Sequence): RGB colour of each class.
        ood (Sequence[int]): Raw ids of OOD pixels.
        void (Sequence[int]): Raw ids of pixels that are never evaluated.
        in_distribution (Sequence[int]): Raw ids that are in-distribution but
            have no known class, as in binary masks.
    """
    name: str
    classes: Sequence[str]
    ids: Sequence[Union[int, Sequence[int]]]
    palette: Sequence[Sequence[int]]
    ood: Sequence[int]
    void: Sequence[int] = (255, )
    in_distribution: Sequence[int] = ()

    def __post_init__(self):
        for field in ('ids', 'palette'):
            if len(getattr(self, field)) != len(self.classes):
                raise ValueError(
                    f'Label protocol {self.name!r} has {len(self.classes)} '
                    f'classes but {len(getattr(self, field))} {field}; give '
                    'one per class.')
        self.tables()

    def tables(self) -> np.ndarray:
        """Look-up tables of both maps, uint8 ``[2, 256]``.

        Row 0 gives the train id (255 for void and OOD), row 1 the anomaly
        label (0 in-distribution, 1 OOD, 255 void, ``UNKNOWN`` otherwise).
        """
        tables = np.full((2, 256), UNKNOWN, np.uint8)
        meanings = [(ids, train_id, IN_DISTRIBUTION)
                    for train_id, ids in enumerate(self.ids)]
        meanings += [(self.ood, IGNORE, OOD), (self.void, IGNORE, VOID),
                     (self.in_distribution, IGNORE, IN_DISTRIBUTION)]
        for ids, train_id, anomaly in meanings:
            for raw in np.atleast_1d(np.asarray(ids, int)):
                self._check_free(tables, raw)
                tables[:, raw] = train_id, anomaly
        return tables

    def _check_free(self, tables, raw):
        if not 0 <= raw <= 255:
            raise ValueError(f'Label protocol {self.name!r}: raw id {raw} is '
                             'outside 0..255.')
        if tables[1, raw] != UNKNOWN:
            raise ValueError(f'Label protocol {self.name!r} gives two '
                             f'meanings to raw id {raw}; keep one.')


def hold_out(name: str, classes: Sequence[str],
             palette: Sequence[Sequence[int]], held_out: Sequence[str],
             void: Sequence[int]) -> LabelProtocol:
    """Make some classes of a closed-set dataset OOD.

    Raw ids are the positions in ``classes``; the classes that remain are
    renumbered in order.
    """
    strangers = sorted(set(held_out) - set(classes))
    if strangers or not held_out:
        raise ValueError(
            f'held_out={tuple(held_out)!r}: '
            f'{", ".join(strangers) or "nothing"} is not among the classes '
            f'of {name}. Choose from: {", ".join(classes)}.')
    kept = [i for i, label in enumerate(classes) if label not in held_out]
    if not kept:
        raise ValueError(f'held_out={tuple(held_out)!r} leaves no class of '
                         f'{name} to train on; hold out fewer.')
    ood: tuple[int, ...] = tuple(i for i in range(len(classes))
                                 if i not in kept)
    return LabelProtocol(
        name=f'{name}, held out: {", ".join(classes[i] for i in ood)}',
        classes=tuple(classes[i] for i in kept),
        ids=tuple(kept),
        palette=[palette[i] for i in kept],
        ood=ood,
        void=void)
