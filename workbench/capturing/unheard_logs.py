"""Log messages that are not printed, and so need not break a graph."""

from __future__ import annotations

import dis
import logging
from collections.abc import Callable
from types import FunctionType, MethodType


class UnheardLogs(set[Callable[..., object]]):
    """Dynamo's set of logger methods whose calls it leaves out, extended by methods that print nothing: the logger is
    set to a higher level, or the method prints a message in its first call alone, like `warning_once` of transformers.

    A message that each call prints breaks the graph, so that each run prints it. So does a method that is not logging's
    own: it may return something, or have effects that are no message.
    """

    def __contains__(self, method: object) -> bool:
        return super().__contains__(method) or _is_unheard(method)


def _is_unheard(method: object) -> bool:
    if not isinstance(method, MethodType) or not isinstance(logger := method.__self__, logging.Logger):
        return False
    function: object = method.__func__
    if hasattr(function, "cache_info"):
        said_by = _passed_on(getattr(function, "__wrapped__", None))
        return said_by is not None and _level(getattr(type(logger), said_by, None)) is not None
    level = _level(function)
    return level is not None and not logger.isEnabledFor(level)


def _level(function: object) -> int | None:
    """The level at which a method of `logging` itself logs; None for any other function, also a subclass's method."""
    if not isinstance(function, FunctionType) or function.__globals__ is not logging.__dict__:
        return None
    return logging.getLevelNamesMapping().get(function.__name__.upper())


def _as_transformers_has_it(self: logging.Logger, *args: object, **kwargs: object) -> None:
    self.warning(*args, **kwargs)  # type: ignore[arg-type]


def _passed_on(function: object) -> str | None:
    """The name of the method that a function passes its arguments on to, if the function does nothing else; else
    None."""
    if not isinstance(function, FunctionType) or len(function.__code__.co_names) != 1:
        return None
    (name,) = function.__code__.co_names
    alike = [(op, name if value == "warning" else value) for op, value in _instructions(_as_transformers_has_it)]
    return name if _instructions(function) == alike else None


def _instructions(function: FunctionType | Callable[..., None]) -> list[tuple[str, object]]:
    return [(each.opname, each.argval) for each in dis.get_instructions(function)]
