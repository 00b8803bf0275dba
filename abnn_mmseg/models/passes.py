"""Change what modules compute during one pass, without changing them.

A pass maps modules to handlers. A handler gets the module's own forward and
its arguments, and may run it differently or not at all. The map lives in a
``ContextVar``, so predictions run from several threads, nest, and leave
nothing behind when they fail.
"""
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Callable, Optional

from torch import nn

from abnn_mmseg.compat import identity_of

# handler(forward, *args, **kwargs) -> what the module gives
Handler = Callable[..., Any]
# By the identity of their module.
_handlers: ContextVar[Mapping[int, Handler]] = ContextVar(
    'abnn_mmseg_handlers')
_NONE: Mapping[int, Handler] = {}


@contextmanager
def handling(handlers: Mapping[nn.Module, Handler]):
    """Within this context, these modules run by their handlers."""
    token = _handlers.set({**_handlers.get(_NONE), **{
        identity_of(module): handler for module, handler in handlers.items()}})
    try:
        yield
    finally:
        _handlers.reset(token)


def handler_of(module: nn.Module) -> Optional[Handler]:
    """The module's handler in the current pass."""
    return _handlers.get(_NONE).get(identity_of(module))


class Handled:
    """A mixin for module classes: forward asks for a handler first."""

    def forward(self, *args, **kwargs):
        """Run the handler of the pass, or the module's own forward."""
        handler = handler_of(self)  # type: ignore[arg-type]
        own = super().forward  # type: ignore[misc]
        if handler is None:
            return own(*args, **kwargs)
        return handler(own, *args, **kwargs)

    def __reduce_ex__(self, protocol):
        """Pickle by the original class, which has an importable name."""
        reduced: Any = super().__reduce_ex__(protocol)
        original = type(self).__mro__[2]
        return (_new_handled, (original, ), *reduced[2:])


@cache
def _handled_class(kind: type) -> type:
    return type(kind.__name__, (Handled, kind),
                dict(__module__=kind.__module__, __doc__=kind.__doc__))


def _new_handled(kind: type) -> nn.Module:
    handled: Any = _handled_class(kind)
    return handled.__new__(handled)


def let_handle(modules: Iterable[nn.Module]) -> None:
    """Let modules ask for handlers, by changing their class to a subclass.

    A ``forward`` that a user has put on an instance stays in place. It wins
    over the class, so it runs, and its module is handled only if it calls the
    original one.
    """
    for module in modules:
        if not isinstance(module, Handled):
            # mypy takes a class for unhashable.
            module.__class__ = _handled_class(
                type(module))  # type: ignore[arg-type]
