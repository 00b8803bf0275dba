"""Write a config as Python: dicts as calls, short lines, comments."""
import keyword
import textwrap
from typing import Any

WIDTH = 79
# Width of an expression, after which brackets and a comma may follow.
ROOM = WIDTH - 4


class Code(str):
    """An expression of the written config, such as ``_base_.model``."""

    __repr__ = str.__str__


class Noted:
    """A value of a dict with a comment on the line above.

    Args:
        note (str): The comment.
        value: The value.
    """

    def __init__(self, note: str, value: Any) -> None:
        self.note, self.value = note, value


def statement(name: str, value: Any, note: str = '') -> str:
    """``name = value`` under its comment, ending with a line break."""
    return f'{comment(note)}{name} = {expression(value, len(name) + 3)}\n'


def comment(note: str, indent: int = 0) -> str:
    """Lines of a comment, none for an empty one."""
    prefix = f'{" " * indent}# '
    return ''.join(
        f'{line}\n' for line in textwrap.wrap(
            note, WIDTH, initial_indent=prefix, subsequent_indent=prefix,
            break_long_words=False, break_on_hyphens=False))


def expression(value: Any, column: int = 0, indent: int = 0) -> str:
    """The Python of a value, on as many lines as it needs.

    The key ``'*'`` of a dict is the call's first, unnamed argument.

    Args:
        value: Of builtin types, :class:`Code` or, in dicts, :class:`Noted`.
        column (int): Column where its first line starts. Defaults to 0.
        indent (int): Indentation of that line. Defaults to 0.
    """
    if isinstance(value, (list, tuple)):
        brackets = ('[', ']') if isinstance(value, list) else ('(', ')')
        entries = [('', '', v) for v in value]
    elif isinstance(value, dict) and all(map(_is_name, value)):
        brackets = ('dict(', ')')
        entries = [_entry(k, v) for k, v in value.items()]
    elif isinstance(value, dict):
        brackets = ('{', '}')
        entries = [('', f'{k!r}: ', v) for k, v in value.items()]
    else:
        return repr(value)
    flat = ', '.join(f'{name}{expression(v)}' for _, name, v in entries)
    # A tuple of one needs its comma.
    comma = ', ' if isinstance(value, tuple) and len(value) == 1 else ''
    flat = f'{brackets[0]}{flat}{comma}{brackets[1]}'
    is_noted = any(note for note, _, _ in entries)
    if not is_noted and '\n' not in flat and column + len(flat) <= ROOM:
        return flat
    body = ',\n'.join(_lines(entries, indent + 4))
    return f'{brackets[0]}\n{body}{comma}{brackets[1]}'


def _lines(entries: list[tuple[str, str, Any]], indent: int) -> list[str]:
    """Entries with their comments, as many on a line as fit."""
    lines: list[str] = []
    is_open = False
    for note, name, value in entries:
        text = name + expression(value, indent + len(name), indent)
        is_short = not note and '\n' not in text
        if is_open and is_short and len(lines[-1]) + len(text) + 2 <= ROOM:
            lines[-1] += f', {text}'
        else:
            lines.append(f'{comment(note, indent)}{" " * indent}{text}')
            # An entry with a comment has its own line.
            is_open = is_short
    return lines


def _entry(name: str, value: Any) -> tuple[str, str, Any]:
    notes = []
    while isinstance(value, Noted):
        notes.append(value.note)
        value = value.value
    return ' '.join(notes), '' if name == '*' else f'{name}=', value


def _is_name(key: Any) -> bool:
    return key == '*' or (isinstance(key, str) and key.isidentifier()
                          and not keyword.iskeyword(key))
