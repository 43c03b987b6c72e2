"""Reads records from a file's JSON and checks them against their fields' types, since a file may hold anything."""

from __future__ import annotations

import dataclasses
import types
import typing
from functools import cache
from typing import Any, TypeVar, cast

R = TypeVar("R")

_LARGEST = 2**62
"""The largest whole number in our files; a larger one could overflow 64 bits at the next addition."""


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def record(cls: type[R], row: object) -> R:
    """Rebuilds a record from its `dataclasses.asdict` as JSON gives it; raises `ValueError` for any other data."""
    names = {field.name for field in dataclasses.fields(cast(Any, cls))}
    fields = cast("dict[str, object]", row) if isinstance(row, dict) else {}
    if set(fields) != names:
        raise ValueError(f"{cls.__name__} has the fields {', '.join(sorted(names))}, found {', '.join(fields)[:100]}")
    return cls(**{name: value(_hints(cls)[name], fields[name], f"{cls.__name__}.{name}") for name in names})


def value(kind: Any, data: object, where: str) -> Any:
    """Rebuilds a value of type `kind` from its JSON data; raises `ValueError`, with `where`, for any other data."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return None if data is None and type(None) in parts else value(parts[0], data, where)
    if origin is tuple and isinstance(data, list):
        items = cast("list[object]", data)
        kinds = [parts[0]] * len(items) if parts[-1] is Ellipsis else list(parts)
        if len(kinds) == len(items):
            return tuple(value(each, item, where) for each, item in zip(kinds, items, strict=True))
    elif dataclasses.is_dataclass(kind):
        return record(cast("type[Any]", kind), data)
    elif type(data) is kind and not (isinstance(data, int) and abs(data) > _LARGEST) and _is_text(data):
        return data
    raise ValueError(f"{where} is {str(cast('object', data))[:100]!r}")


def _is_text(data: object) -> bool:
    """False for a text that cannot be encoded: JSON allows half of a surrogate pair, writing it out fails."""
    if isinstance(data, str):
        try:
            data.encode()
        except UnicodeEncodeError:
            return False
    return True
