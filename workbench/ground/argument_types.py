"""Checks arguments against the annotations of the called function: an error names the argument of a wrong kind."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, ParamSpec, TypeVar, cast

import numpy as np

from workbench.ground.errors import BadArgument

P = ParamSpec("P")
R = TypeVar("R")

_KINDS: Final[Mapping[str, tuple[str, Callable[[object], bool]]]] = {
    "str": ("text", lambda value: isinstance(value, str)),
    "bool": ("True or False", lambda value: isinstance(value, bool)),
    "int": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "float": ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    "None": ("None", lambda value: value is None),
    "os.PathLike": ("a path", lambda value: isinstance(value, os.PathLike)),
    "Path": ("a path", lambda value: isinstance(value, os.PathLike)),
    "Mapping": ("a mapping", lambda value: isinstance(value, Mapping)),
    "Sequence": ("a list", lambda value: isinstance(value, Sequence) and not isinstance(value, str | bytes)),
    "Callable": ("a function", callable),
}
"""By the begin of an annotation: the words for the expected kind, and the test of a value."""

STAGES: Final = ("Captured", "Lowered", "Rendered", "Scheduled", "Simulated")
_OF_OURS: Final = (*STAGES, "Journey", "Selection", "AtenGraph", "KernelGraph")

_SAY_MORE: Final = frozenset(
    {"fn_or_module", "machine", "mapping", "fusion", "resident", "placement", "passes", "simulate_seconds", "seconds"}
    | {"rtol", "atol", "on_missing", "capture", "stage", "train", "route", "kind", "dialect", "prefer"}
)
"""Arguments with checks of their own, whose errors say more about what is expected."""


_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def checks_what_it_is_given(verb: Callable[P, R]) -> Callable[P, R]:
    """Decorates `verb` to raise `BadArgument` for an argument that its annotation does not allow."""
    check = checker(verb)

    @functools.wraps(verb)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        given, named = plain(args, kwargs)
        check(given, named)
        return verb(*given, **named)

    return checked


def plain(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with NumPy's numbers, which tables hand out, as Python's numbers."""
    return tuple(map(plain_value, args)), {name: plain_value(value) for name, value in kwargs.items()}


def plain_value(value: Any) -> Any:
    return cast("Any", value).item() if isinstance(value, np.generic) else value


def checker(verb: Callable[..., object]) -> Callable[[tuple[object, ...], Mapping[str, object]], None]:
    """Returns a function that raises `BadArgument` for an argument of `verb` that its annotation does not allow."""
    signature = inspect.signature(verb)
    single = [each for each in signature.parameters.values() if each.kind not in _VARIADIC]
    wanted = {each.name: _alternatives(str(each.annotation)) for each in single}
    wanted = {name: kinds for name, kinds in wanted.items() if kinds and name not in _SAY_MORE}
    paths = {each.name for each in single if "Path" in str(each.annotation)}
    what = verb.__qualname__ if "." in verb.__qualname__ else f"wb.{verb.__name__}"

    def check(args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise BadArgument(
                f"{what}{_shown(signature)} was called with arguments that it does not take: {error}"
            ) from None
        for name, kinds in wanted.items():
            if name in given and not any(is_one(given[name]) for _, is_one in kinds):
                expected = " or ".join(dict.fromkeys(text for text, _ in kinds))
                raise BadArgument(f"{what}: {name}={short(given[name])}; expected {expected}")
            if name in given and isinstance(given[name], str) and "\0" in cast("str", given[name]):
                raise BadArgument(f"{what}: {name}={short(given[name])} has a NUL character; expected text without one")
        for name in paths.intersection(given):
            if isinstance(given[name], os.PathLike) and (mistake := _mistake_of_path(given[name])):
                raise BadArgument(f"{what}: {name}={short(given[name])}: {mistake}")

    return check


def _mistake_of_path(path: os.PathLike[Any]) -> str:
    """Returns the mistake in a path, empty for none: Python allows paths of bytes, and functions that read text do
    not."""
    try:
        text: object = os.fspath(path)
    except Exception as error:  # its own code may raise anything
        return f"its __fspath__ raised {type(error).__name__}: {error}; expected one that gives the path as text"
    if not isinstance(text, str):
        return f"it is the path {text!r:.60}, of bytes; expected one of text, as os.fsdecode(path) gives it"
    return f"its path {text!r:.60} has a NUL character; expected text without one" if "\0" in text else ""


def _alternatives(annotation: str) -> list[tuple[str, Callable[[object], bool]]]:
    """The kinds of value that an annotation allows; empty if one of them is not known here."""
    found: list[tuple[str, Callable[[object], bool]]] = []
    for part in _split(annotation):
        name = part.partition("[")[0].strip()
        if name in _KINDS:
            found.append(_KINDS[name])
        elif name in _OF_OURS:
            found.append((f"{'an' if name[0] in 'AEIOU' else 'a'} {name}", functools.partial(_is_a, name)))
        else:
            return []
    return found


def _split(annotation: str) -> list[str]:
    """The alternatives of a union; a union inside brackets is not split."""
    parts, depth = [""], 0
    for letter in annotation:
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _is_a(name: str, value: object) -> bool:
    return any(cls.__name__ == name for cls in type(value).__mro__)


def _shown(signature: inspect.Signature) -> str:
    return f"({', '.join(name for name in signature.parameters if name != 'self')})"


def short(value: object) -> str:
    """The value as an error shows it: its text, cut if it is long, and its type."""
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'}, of type {type(value).__name__}"
