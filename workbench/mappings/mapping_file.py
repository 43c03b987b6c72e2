"""A file of mappings by op kind and shapes: TOML or JSON, written by a person.

    version = 1

    [[mapping]]
    ops = ["matmul"]                        # a kernel of these ops of PyTorch, no more and no fewer
    shapes = [[1024, 1024], [1024, 1024]]   # of its inputs; "*" is any extent
    machine = "tpu-v3"                      # without it any machine
    tile = { m = 512, n = 256, k = 1024 }
    order = ["m", "n", "k"]
    buffers = 3

Of several entries that match a kernel the first counts.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from simulator.did_you_mean import did_you_mean, not_there, sentences
from simulator.files.regular_files import check_readable
from simulator.machine.machine import Machine
from workbench.errors import MappingFileError
from workbench.mappings.kernel_kind import KernelKind, short
from workbench.mappings.key_lines import Lines, lines_of_json, lines_of_toml, repeated_key_of_json
from workbench.mappings.mapping_form import OF_A_KERNEL, mistake_in
from workbench.scheduling.user_mapping import UserMapping

_TABLE, _VERSION = "mapping", 1
_OF_A_KIND: Final = ("ops", "shapes", "machine")
_ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class Entry:
    """A mapping, and the kernels it is for."""

    line: int
    ops: tuple[str, ...]
    shapes: tuple[tuple[int | str, ...], ...] | None
    machine: str
    mapping: UserMapping

    def matches(self, kernel: KernelKind, machine: Machine) -> bool:
        return (
            self.machine in ("", machine.name)
            and len(self.ops) == len(kernel.ops)
            and all(wanted in (op, short(op)) for wanted, op in zip(self.ops, kernel.ops, strict=True))
            and (self.shapes is None or _alike(self.shapes, kernel.shapes))
        )


@dataclass(frozen=True, slots=True)
class MappingFile:
    """The entries of a file; a change of the file later changes nothing here."""

    path: str
    entries: tuple[Entry, ...]

    def entry_for(self, kernel: KernelKind, machine: Machine) -> Entry | None:
        """The first entry that matches a kernel."""
        return next((each for each in self.entries if each.matches(kernel, machine)), None)

    def __repr__(self) -> str:
        return repr(self.path)


def _alike(wanted: tuple[tuple[int | str, ...], ...], shapes: tuple[tuple[int, ...], ...]) -> bool:
    return len(wanted) == len(shapes) and all(
        len(one) == len(other) and all(each in (_ANY, extent) for each, extent in zip(one, other, strict=True))
        for one, other in zip(wanted, shapes, strict=True)
    )


def read_mapping_file(given: str | os.PathLike[str]) -> MappingFile:
    """The mappings of a file; each mistake is one error with file, line and key."""
    path = Path(given)
    if path.suffix not in (".toml", ".json"):
        told = f"mapping={os.fspath(given)!r}: expected a file that ends in .toml or .json, or {{kernel: mapping}}"
        raise MappingFileError(told)
    try:
        check_readable(path)
        text = path.read_text("utf-8").removeprefix("\ufeff")
    except FileNotFoundError:
        raise MappingFileError(f"mapping={os.fspath(given)!r}: {not_there(path)}") from None
    except (OSError, ValueError) as error:
        raise MappingFileError(f"mapping={os.fspath(given)!r} cannot be read: {error}") from None
    whole, lines = _parsed(path, text)
    entries = whole.get(_TABLE, [])
    _check_head(path, whole)
    return MappingFile(
        str(path),
        tuple(_entry(_Place(path, lines, number), each) for number, each in enumerate(cast("list[object]", entries))),
    )


def _parsed(path: Path, text: str) -> tuple[dict[str, Any], Lines]:
    kind = path.suffix[1:].upper()
    try:
        whole: object = tomllib.loads(text) if kind == "TOML" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MappingFileError(f"{path}: not {kind}: {error}") from None
    if not isinstance(whole, dict):
        raise MappingFileError(f"{path}: expected an object with `version` and a list `{_TABLE}`")
    if kind == "JSON" and (twice := repeated_key_of_json(text)):
        raise MappingFileError(
            f"{path}, line {twice[0]}: the key {twice[1]!r} stands there again; leave one of them out"
        )
    lines = lines_of_toml(text, _TABLE) if kind == "TOML" else lines_of_json(text, _TABLE)
    return cast("dict[str, Any]", whole), lines


def _check_head(path: Path, whole: Mapping[str, object]) -> None:
    version = whole.get("version")
    if version != _VERSION or type(version) is not int:
        raise MappingFileError(f"{path}: version = {version!r}; this version of the workbench reads {_VERSION}")
    for key in whole:
        if key not in ("version", _TABLE):
            what = f"{path}: unknown key {key!r}{did_you_mean(key, ('version', _TABLE))}"
            raise MappingFileError(sentences(what, f"Expected version, and entries under {_TABLE}"))
    if not isinstance(whole.get(_TABLE, []), list):
        raise MappingFileError(f"{path}: {_TABLE} is one table; expected a list of them, in TOML [[{_TABLE}]]")


@dataclass(frozen=True, slots=True)
class _Place:
    """An entry of a file."""

    path: Path
    lines: Lines
    number: int

    def line(self, key: str = "") -> int:
        """The line of a key, else of the entry, else of the list that it is in."""
        places = (self.number, key), (self.number, ""), (-1, _TABLE)
        return next((self.lines[place] for place in places if place in self.lines), 1)

    def error(self, key: str, what: str) -> MappingFileError:
        return MappingFileError(f"{self.path}, line {self.line(key)}: {what}")


def _entry(place: _Place, given: object) -> Entry:
    if not isinstance(given, dict):
        raise place.error("", f"{given!r:.60} is no entry; expected a table with ops and tile, order, buffers or cores")
    entry = cast("dict[str, Any]", given)
    for key, value in entry.items():
        if key not in (*_OF_A_KIND, *OF_A_KERNEL):
            what = f"unknown key {key!r}{did_you_mean(key, (*_OF_A_KIND, *OF_A_KERNEL))}"
            raise place.error(key, sentences(what, f"Expected {', '.join((*_OF_A_KIND, *OF_A_KERNEL))}"))
        if key in OF_A_KERNEL and (mistake := mistake_in(key, value)):
            raise place.error(key, mistake)
    ops, machine = entry.get("ops"), entry.get("machine", "")
    if not _is_texts(ops):
        form = 'expected the ops of the kernel in order, ops = ["matmul", "gelu"]'
        raise place.error("ops", f"ops = {ops!r:.60}: {form}" if "ops" in entry else f"ops is missing: {form}")
    if not isinstance(machine, str):
        raise place.error("machine", f"machine = {machine!r:.60}: expected the name of a machine")
    mapping = cast("UserMapping", {key: entry[key] for key in OF_A_KERNEL if key in entry})
    if not mapping:
        raise place.error("", "the entry says nothing about the mapping; expected tile, order, buffers or cores")
    return Entry(place.line(), tuple(cast("list[str]", ops)), _shapes(place, entry.get("shapes")), machine, mapping)


def _is_texts(given: object) -> bool:
    texts = cast("list[object]", given) if isinstance(given, list) else []
    return bool(texts) and all(isinstance(each, str) for each in texts)


def _shapes(place: _Place, given: object) -> tuple[tuple[int | str, ...], ...] | None:
    if given is None:
        return None
    told = f'shapes = {given!r:.80}: expected a shape for each input, shapes = [[1024, 512], [512, "*"]]'
    if not isinstance(given, list):
        raise place.error("shapes", told)
    for shape in cast("list[object]", given):
        if not isinstance(shape, list):
            raise place.error("shapes", told)
        for extent in cast("list[object]", shape):
            if extent != _ANY and (not isinstance(extent, int) or isinstance(extent, bool) or extent < 0):
                raise place.error("shapes", f'{told}; {extent!r} is no extent, which is a whole number or "*"')
    return tuple(tuple(shape) for shape in cast("list[list[int | str]]", given))
