"""Change what modules compute during one pass, without changing them.

A pass maps modules to handlers. A handler gets the module's own forward and
its arguments, and may run it differently or not at all. The map is stored in a
``ContextVar``, so predictions can run in several threads and can be nested,
and a failed one leaves no trace.
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
    """A context in which modules are run by their handlers."""
    token = _handlers.set({**_handlers.get(_NONE), **{
        identity_of(module): handler for module, handler in handlers.items()}})
    try:
        yield
    finally:
        _handlers.reset(token)


def handler_of(module: nn.Module) -> Optional[Handler]:
    """The handler of a module in the current pass; None without one."""
    return _handlers.get(_NONE).get(identity_of(module))


class Handled:
    """A mixin for module classes whose forward looks for a handler."""

    def forward(self, *args, **kwargs):
        """Run the handler in the current pass, or the module's forward."""
        handler = handler_of(self)  # type: ignore[arg-type]
        own = super().forward  # type: ignore[misc]
        if handler is None:
            return own(*args, **kwargs)
        return handler(own, *args, **kwargs)

    def __reduce_ex__(self, protocol):
        """Pickle by the original class, which can be imported."""
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
    """Make modules look for handlers, by changing their class to a subclass.

    A ``forward`` that a user has set on an instance is kept and runs instead
    of the class's. The handler then runs only if it calls the original one.
    """
    for module in modules:
        if not isinstance(module, Handled):
            # mypy takes a class for unhashable.
            module.__class__ = _handled_class(
                type(module))  # type: ignore[arg-type]
