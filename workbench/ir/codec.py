"""Records to JSON and back: one codec for every frozen dataclass of `workbench.ir`.

A file is `{"format": ..., "version": ..., "record": ...}`. Reading is strict: an unknown format, version or key is
refused, so a file is either understood whole or not at all. Floats that JSON does not have (`inf`, `nan`) are written
as `{"float": "inf"}`. If a field is a union of records, each record has its class name under `"is"`.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import types
import typing
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from simulator.files import unpacking, visible_text
from workbench.ground.packages import own_name

T = TypeVar("T")

APART: Final = types.MappingProxyType({"apart": True})
"""Metadata of a field with a format of its own. The field is not encoded; the caller of `decode` puts the value itself
into the data. Other metadata, such as that of a machine's figures, has no meaning here."""


class RecordFormatError(ValueError):
    """A JSON text is not a record that this version can read."""


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _is_record(kind: object) -> bool:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


def encode(value: object, *, tagged: bool = False) -> Any:
    """Plain JSON data for a record, or for anything a record's field may hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = _hints(type(value))
        out: dict[str, Any] = {"is": type(value).__name__} if tagged else {}
        for field in dataclasses.fields(value):
            if "apart" not in field.metadata:
                out[field.name] = encode(getattr(value, field.name), tagged=len(_records_in(hints[field.name])) > 1)
        return out
    if isinstance(value, (tuple, list)):
        items = cast("tuple[object, ...]", value)
        return [encode(item, tagged=tagged) for item in items]
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value)
        return {key: encode(item, tagged=tagged) for key, item in pairs.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{type(value).__name__} cannot be part of a record")


@functools.cache
def _records_in(kind: Any) -> tuple[type, ...]:
    """The record classes that a value of this annotation may have: if there are several, JSON must name the class."""
    if _is_record(kind):
        return (kind,)
    found: list[type] = []
    for part in typing.get_args(kind):
        if part is not Ellipsis:
            found += [record for record in _records_in(part) if record not in found]
    return tuple(found)


def decode(kind: Any, data: Any, where: str = "record") -> Any:
    """Returns the value of annotation `kind` from which `encode` made `data`."""
    if _is_record(kind):
        return _decode_record(kind, data, where)
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(typing.get_args(kind), data, where)
    if origin is tuple:
        if not isinstance(data, list):
            raise RecordFormatError(f"{where}: expected a list, found {type(data).__name__}")
        items = cast("list[Any]", data)
        parts = typing.get_args(kind)
        kinds = [parts[0]] * len(items) if parts[-1] is Ellipsis else list(parts)
        if len(kinds) != len(items):
            raise RecordFormatError(f"{where}: expected {len(kinds)} items, found {len(items)}")
        return tuple(decode(k, item, f"{where}[{i}]") for i, (k, item) in enumerate(zip(kinds, items, strict=True)))
    if origin is dict:
        inner = typing.get_args(kind)[1]
        pairs = object_of(data, "an", where).items()
        return {_plain(key, where): decode(inner, item, f"{where}.{key}") for key, item in pairs}
    if kind is float and isinstance(data, dict):
        return _odd_float(cast("dict[str, Any]", data), where)
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(_plain(data, where))
    if isinstance(kind, type) and type(data) is kind:
        return _plain(data, where)
    raise RecordFormatError(f"{where}: expected {getattr(kind, '__name__', kind)}, found {data!r}")


_LARGEST = 2**62
"""The largest whole number in a record: a larger one could leave 64 bits with the next addition."""
_END = 2**63 - 1
"""PyTorch's number for the end of a tensor of any size."""


def _plain(data: Any, where: str) -> Any:
    """Returns the data; raises for a number that is too large, or a text that cannot be written."""
    if isinstance(data, int) and abs(data) > _LARGEST:
        raise RecordFormatError(f"{where}: a number of {data.bit_length()} bits")
    if isinstance(data, str):
        try:
            data.encode()
        except UnicodeEncodeError:
            raise RecordFormatError(f"{where}: a text with half a character in it") from None
    return data


def json_object(data: object, where: str) -> dict[str, Any]:
    """Returns the JSON data unchanged; raises for numbers and texts that records may not have."""
    return {
        name: _checked(value, f"{where}.{_plain(name, where)}") for name, value in object_of(data, "an", where).items()
    }


def _checked(data: object, where: str) -> Any:
    if isinstance(data, dict):
        return json_object(cast("object", data), where)
    if isinstance(data, list):
        return [_checked(each, where) for each in cast("list[object]", data)]
    return _plain(data, where)


def object_of(data: object, what: str, where: str) -> dict[str, Any]:
    """Returns the data, which must be an object of JSON: `what` is an article and the kind of the record, for the
    error."""
    if not isinstance(data, dict):
        raise RecordFormatError(f"{where}: expected {what} object, found {type(data).__name__}")
    return cast("dict[str, Any]", data)


def _odd_float(data: dict[str, Any], where: str) -> float:
    if data.keys() != {"float"} or data["float"] not in ("inf", "-inf", "nan"):
        raise RecordFormatError(f"{where}: expected a number, found {data!r}")
    return float(data["float"])


def _decode_record(kind: type[T], data: Any, where: str) -> T:
    fields = {key: value for key, value in object_of(data, f"a {kind.__name__}", where).items() if key != "is"}
    known = {field.name: field for field in dataclasses.fields(cast(Any, kind))}
    if fields.keys() != known.keys():
        unknown, missing = sorted(fields.keys() - known.keys()), sorted(known.keys() - fields.keys())
        raise RecordFormatError(f"{where}: not a {kind.__name__} (unknown: {unknown}, missing: {missing})")
    hints = _hints(kind)
    apart = {field.name for field in known.values() if "apart" in field.metadata}
    return kind(
        **{
            name: value if name in apart else decode(hints[name], value, f"{where}.{name}")
            for name, value in fields.items()
        }
    )


def _decode_union(kinds: tuple[Any, ...], data: Any, where: str) -> Any:
    tag: object = cast("dict[str, Any]", data).get("is") if isinstance(data, dict) else None
    if tag is not None:
        for kind in kinds:
            for record in _records_in(kind) if not typing.get_origin(kind) else ():
                if record.__name__ == tag:
                    return _decode_record(cast(Any, record), data, where)
        raise RecordFormatError(f"{where}: unknown record {tag!r}")
    if isinstance(data, int) and not isinstance(data, bool) and float in kinds and -_END - 1 <= data <= _END:
        return data  # a literal of a call: slices have such ends
    for kind in kinds:
        try:
            return decode(kind, data, where)
        except RecordFormatError:
            continue
    raise RecordFormatError(f"{where}: {data!r} is none of {[getattr(k, '__name__', str(k)) for k in kinds]}")


def schema(*kinds: type) -> str:
    """A digest of the fields of these records and of all records in them: another digest means another version."""
    told: dict[str, list[str]] = {}

    def tell(kind: Any) -> None:
        if not _is_record(kind):
            for part in typing.get_args(kind):
                tell(part)
        elif kind.__qualname__ not in told:
            hints = _hints(kind)
            names = [field.name for field in dataclasses.fields(kind)]
            told[kind.__qualname__] = [f"{name}: {_as_written(hints[name])}" for name in names]
            for name in names:
                tell(hints[name])

    for kind in kinds:
        tell(kind)
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def _as_written(hint: Any) -> str:
    """An annotation as it enters the digest: the same in the repository and in the wheel, where the simulator lies in
    another package."""
    return str(hint).replace(f"{own_name('simulator')}.", "simulator.")


def dumps(record: object, *, format: str, version: int) -> str:
    """The text of a record's file."""
    body = {"format": format, "version": version, "record": encode(record)}
    return json.dumps(body, indent=1, allow_nan=False, sort_keys=True)


def parsed(text: str | bytes) -> Any:
    """Returns the data of a JSON text; raises for a text that is nested more deeply than records are."""
    try:
        data = visible_text.of_json(text)
        unpacking.check_nesting(data)
    except (ValueError, RecursionError) as error:
        raise RecordFormatError(f"not JSON of ours: {error}") from None
    return data


_HELD_AGAINST: dict[type, Callable[[Any], None]] = {}


def held_against(kind: type[T]) -> Callable[[Callable[[T], None]], Callable[[T], None]]:
    """Decorates a check, which raises for a record of this kind that makes no sense; `loads` runs the check on what it
    reads."""

    def register(check: Callable[[T], None]) -> Callable[[T], None]:
        _HELD_AGAINST[kind] = check
        return check

    return register


def loads(kind: type[T], text: str, *, format: str, version: int) -> T:
    """Reads the record that `dumps` wrote; refuses another format or version, and a record that makes no sense."""
    body = parsed(text)
    if not isinstance(body, dict) or set(cast("dict[str, Any]", body)) != {"format", "version", "record"}:
        raise RecordFormatError(f"not a {format} file: expected the keys format, version and record")
    found = cast("dict[str, Any]", body)
    if found["format"] != format or found["version"] != version:
        again = ". Make the file again with this version of the workbench" if found["format"] == format else ""
        raise RecordFormatError(
            f"expected {format} version {version}, found {found['format']!r} version {found['version']!r}{again}"
        )
    record = decode(kind, found["record"], format)
    if kind in _HELD_AGAINST:
        _HELD_AGAINST[kind](record)
    return record
