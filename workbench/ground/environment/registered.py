"""Registrations by name: passes, patterns, views, and rules of findings.

The same rules hold for all of them, and for operators (`operators/aten/registry.py`): a registration has an owner;
defining the same object again replaces its last version; another owner's is refused, with both places;
`with wb.ops.scope():` undoes at its end all registrations inside. Shipped ones may be replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from workbench.ground.environment.owners import Owner
from workbench.ground.environment.turns import own_lock
from workbench.ground.errors import RegistrationClash

V = TypeVar("V", bound=Callable[..., Any])

_EVERY: Final[list[Named[Any]]] = []


class Named(Mapping[str, V]):
    """Functions by name, each with its owner. Reading gives the current functions, or within `as_of` those of another
    time."""

    def __init__(self, what: str) -> None:
        self.what = what
        """The kind of a registration in words: `pass`, `view of captured`."""
        self._functions: dict[str, V] = {}
        self._then: ContextVar[Mapping[str, V] | None] = ContextVar(f"registered {what}", default=None)
        self._lock = own_lock()
        _EVERY.append(self)

    def add(self, name: str, function: V) -> None:
        """Registers the function in place of its older version; refuses a function of another owner."""
        new = Owner.of(function)
        with self._lock:
            if name in self._functions:
                old = Owner.of(self._functions[name])
                if not new.replaces(old) and not old.is_shipped:
                    raise RegistrationClash(
                        f"there is a {self.what} {name!r} already: {old.name} of {old.module}, {old.place}. "
                        f"{new.name} of {new.module}, {new.place}, registers the name too. Give one of them "
                        "another name, or register it inside `with wb.ops.scope():` if only for a while"
                    )
            self._functions[name] = function

    def now(self) -> dict[str, V]:
        """A copy of the current functions; later changes do not affect it."""
        with self._lock:
            return dict(self._functions)

    def put_back(self, functions: Mapping[str, V]) -> None:
        """Restores exactly these functions, and keeps the shipped ones: a module registers those once, at its first
        import."""
        with self._lock:
            kept = {name: each for name, each in self._functions.items() if Owner.of(each).is_shipped}
            self._functions = kept | dict(functions)

    @contextmanager
    def as_of(self, then: Mapping[str, V] | None) -> Generator[None]:
        """Within the block, this thread reads the registrations `then`; None means the current ones."""
        token = self._then.set(then)
        try:
            yield
        finally:
            self._then.reset(token)

    @property
    def _seen(self) -> Mapping[str, V]:
        then = self._then.get()
        return self._functions if then is None else then

    def __getitem__(self, name: str) -> V:
        return self._seen[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)


def now() -> list[tuple[Named[Any], dict[str, Any]]]:
    """A copy of every table of registrations."""
    return [(each, each.now()) for each in _EVERY]


def put_back(before: list[tuple[Named[Any], dict[str, Any]]]) -> None:
    """Undoes later registrations; a table that was not loaded then had none of a user's."""
    known = {id(each): functions for each, functions in before}
    for each in _EVERY:
        each.put_back(known.get(id(each), {}))


PASSES: Final = Named[Any]("pass")
"""The registered passes. The table is in this module because a journey with `passes=` copies it, even if MLIR is not
loaded."""

REWRITES: Final = Named[Any]("graph pass or pattern")
"""Graph passes and patterns, which run in the order of their registration. A journey copies this table."""
