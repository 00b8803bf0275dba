"""Refuse a name that is none, and suggest the one that was meant."""
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


def closest(value: Any, choices: Iterable[str]) -> str:
    """The choice that is spelled most like a value."""
    spelled = {choice.lower(): choice for choice in choices}
    near = get_close_matches(str(value).lower(), spelled, 1, 0)
    return spelled[near[0]]


def one_of(what: str, value: Any, choices: Iterable[str]) -> str:
    """The value, or a sentence with the nearest of the choices.

    Args:
        what (str): What the user wrote before the value, with its place.
        value (Any): What the user wrote.
        choices (Iterable[str]): What exists.
    """
    choices = list(choices)
    if value in choices:
        return value
    raise ValueError(
        f'{what}={value!r} is unknown; did you mean '
        f'{closest(value, choices)!r}? Write one of {", ".join(choices)}.')
