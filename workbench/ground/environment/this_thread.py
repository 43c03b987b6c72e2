"""Changes that hold in one thread: unwanted warnings and messages, and functions in place of others.

`warnings.catch_warnings` changes the filters of all threads. A thread that leaves it restores the filters that it found
at its entry, even if others have changed them since.
"""

from __future__ import annotations

import logging
import re
import threading
import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, cast

T = TypeVar("T")
_WARNINGS: Final = cast(Any, warnings)


@dataclass(frozen=True)
class Filter:
    """The action for a kind of warning."""

    action: Literal["ignore", "error"]
    category: type[Warning]
    message: str = ""
    """The begin of the warning's text, as a regular expression."""
    module: str = ""
    """The begin of the name of the module to which the warning applies, as a regular expression."""


def in_this_thread(ours: Callable[..., T], theirs: Callable[..., T]) -> Callable[..., T]:
    """Returns a function that calls `ours` in this thread, and `theirs` in all other threads."""
    thread = threading.get_ident()

    def called(*given: object, **named: object) -> T:
        return (ours if threading.get_ident() == thread else theirs)(*given, **named)

    return called


def returning(value: T) -> Callable[..., T]:
    """Returns a function that returns `value` for any arguments."""

    def called(*_: object) -> T:
        return value

    return called


class _Here:
    """A pattern that matches in one thread alone. Filters of warnings call the `match` of their patterns."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._thread = re.compile(pattern, re.IGNORECASE), threading.get_ident()

    def match(self, text: str) -> bool:
        return threading.get_ident() == self._thread and self._pattern.match(text) is not None


@contextmanager
def warnings_here(*filters: Filter) -> Generator[None]:
    """Within the block these filters come before all others in this thread alone; the last of them is first."""
    entries = [(each.action, _Here(each.message), each.category, re.compile(each.module), 0) for each in filters]
    into = _WARNINGS.filters
    into[:0] = reversed(entries)
    _WARNINGS._filters_mutated()
    try:
        yield
    finally:
        for entry in entries:
            for each in (into, _WARNINGS.filters):  # a catch_warnings may have set another list meanwhile
                if entry in each:
                    each.remove(entry)
        _WARNINGS._filters_mutated()


class _NotHere(logging.Filter):
    """Drops the messages of one thread."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        return threading.get_ident() != self._thread


@contextmanager
def unlogged_here(names: Iterable[str]) -> Generator[None]:
    """Within the block these loggers pass on no message of this thread."""
    silent, logs = _NotHere(), [logging.getLogger(name) for name in names]
    for log in logs:
        log.addFilter(silent)
    try:
        yield
    finally:
        for log in logs:
            log.removeFilter(silent)
