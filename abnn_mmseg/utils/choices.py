"""Check names that a user writes; choose images evenly."""
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Optional, Union


def closest(value: Any, choices: Iterable[str]) -> str:
    """Return the choice that is spelled most like a value."""
    spelled = {choice.lower(): choice for choice in choices}
    near = get_close_matches(str(value).lower(), spelled, 1, 0)
    return spelled[near[0]]


def one_of(what: str, value: Any, choices: Iterable[str]) -> str:
    """Return the value; raise ValueError if it is not among the choices.

    Args:
        what (str): Name of the setting, with its place.
        value (Any): The value that the user wrote.
        choices (Iterable[str]): The valid values.
    """
    choices = list(choices)
    if value in choices:
        return value
    raise ValueError(
        f'{what}={value!r} is unknown; {suggestion(value, choices)}')


def all_of(what: str, names: Union[str, Iterable[str]],
           choices: Iterable[str]) -> tuple[str, ...]:
    """Return the names as a tuple; raise ValueError for an unknown one.

    Args:
        what (str): What the names are names of, such as ``'score'``.
        names (str | Iterable[str]): The names that the user wrote.
        choices (Iterable[str]): The valid names.
    """
    names = (names, ) if isinstance(names, str) else tuple(names)
    choices = list(choices)
    for name in names:
        if name not in choices:
            raise ValueError(
                f'{name!r} is not a {what}; {suggestion(name, choices)}')
    return names


def suggestion(value: Any, choices: Iterable[str]) -> str:
    """The end of a message about an unknown name: the closest, and all."""
    choices = list(choices)
    return (f'did you mean {closest(value, choices)!r}? Write one of '
            f'{", ".join(choices)}.')


def evenly_spaced(count: int, wanted: Optional[int]) -> list[int]:
    """Choose ``wanted`` of the numbers 0 to ``count - 1``; None is all."""
    if wanted is None or wanted >= count:
        return list(range(count))
    if wanted < 1:
        raise ValueError(f'{wanted} images are too few; ask for at least 1.')
    return [(2 * i + 1) * count // (2 * wanted) for i in range(wanted)]
