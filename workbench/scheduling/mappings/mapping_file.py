"""A file of mappings by op kind and shapes: TOML or JSON, written by a person.

    version = 1
    machines = ["mine"]                     # names of your own machines, which are not shipped

    [[mapping]]
    ops = ["matmul"]                        # for a kernel of exactly these ops of PyTorch
    shapes = [[1024, 1024], [1024, 1024]]   # the kernel's input shapes; "*" is any extent
    machine = "tpu-v3"                      # any machine if left out
    tile = { m = 512, n = 256, k = 1024 }
    order = ["m", "n", "k"]
    buffers = 3

If several entries match a kernel, the first one counts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final, cast

from simulator.did_you_mean import did_you_mean, not_there, sentences
from simulator.files.regular_files import check_readable
from simulator.files.visible_text import of_json
from simulator.machine.machine import Machine
from simulator.machine.machine_file import machine_names
from simulator.machine.toml_text import toml_of
from workbench.ground.errors import MappingFileError
from workbench.scheduling.mappings.kernel_kind import KernelKind, short
from workbench.scheduling.mappings.key_lines import Lines, lines_of_json, lines_of_toml, mistake_in_json
from workbench.scheduling.mappings.tuned_table import FORMAT as TUNED
from workbench.scheduling.user_mapping import OF_A_KERNEL, UserMapping, mistake_in

_TABLE, _MACHINES, _VERSION = "mapping", "machines", 1
_OF_A_KIND: Final = ("ops", "shapes", "machine")
_ANY: Final = "*"

NO_ENTRY: Final = "no entry of"
"""The beginning of a note that a file has no mapping for a kernel."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A mapping, and the kernels that it is for."""

    lines: Mapping[str, int]
    """The line of each key of the entry; under "", the line where the entry begins."""
    ops: tuple[str, ...]
    shapes: tuple[tuple[int | str, ...], ...] | None
    machine: str
    mapping: UserMapping

    def differences(self, kernel: KernelKind, machine: Machine) -> list[str]:
        """The properties of the entry that differ from the kernel's, in words; empty if the entry is for the kernel."""
        found = list[str]()
        same_ops = len(self.ops) == len(kernel.ops) and all(
            wanted in (op, short(op)) for wanted, op in zip(self.ops, kernel.ops, strict=True)
        )
        if not same_ops:
            found.append(f"ops {', '.join(self.ops)}")
        if self.shapes is not None and not _alike(self.shapes, kernel.shapes):
            found.append(f"shapes {', '.join(str(list(shape)) for shape in self.shapes)}")
        if self.machine not in ("", machine.name):
            found.append(f"machine {self.machine}")
        return found


@dataclass(frozen=True, slots=True)
class MappingFile:
    """The entries of a file, as they were when it was read."""

    path: str
    entries: tuple[Entry, ...]
    machines: tuple[str, ...] = ()
    """Names of machines that are not shipped."""

    def entry_for(self, kernel: KernelKind, machine: Machine) -> Entry | None:
        """The first entry that matches a kernel."""
        return next((each for each in self.entries if not each.differences(kernel, machine)), None)

    def why_none(self, kernel: KernelKind, machine: Machine) -> str:
        """The message that no entry matches a kernel; names the nearest: fewest differences, then most similar ops."""
        told = f"{NO_ENTRY} {self.path} matches {kernel} on {machine.name}"
        apart = [(len(each.differences(kernel, machine)), -_ops_alike(each, kernel), each) for each in self.entries]
        if not apart:
            return told
        nearest = min(apart, key=lambda each: each[:2])[2]
        return (
            f"{told}; the nearest, line {nearest.lines['']}, has {' and '.join(nearest.differences(kernel, machine))}"
        )

    def check_machines(self, machine: Machine) -> None:
        """Raises if an entry names an unknown machine."""
        known = (*machine_names(), *self.machines, machine.name)
        for each in self.entries:
            if each.machine and each.machine not in known:
                where = f"{self.path}, line {each.lines['machine']}: machine = {each.machine!r}"
                what = f"{where}: no machine of that name is shipped{did_you_mean(each.machine, known)}"
                own = f"A machine of your own is named at the top of the file, {_MACHINES} = [{each.machine!r}]"
                raise MappingFileError(sentences(what, f"Shipped are {', '.join(machine_names())}", own))

    def __repr__(self) -> str:
        return repr(self.path)


def _ops_alike(entry: Entry, kernel: KernelKind) -> float:
    """The similarity of the ops' names, from 0 to 1 if equal, so that a misspelt op is still near."""
    return SequenceMatcher(None, " ".join(map(short, entry.ops)), " ".join(map(short, kernel.ops))).ratio()


def _alike(wanted: tuple[tuple[int | str, ...], ...], shapes: tuple[tuple[int, ...], ...]) -> bool:
    return len(wanted) == len(shapes) and all(
        len(one) == len(other) and all(each in (_ANY, extent) for each, extent in zip(one, other, strict=True))
        for one, other in zip(wanted, shapes, strict=True)
    )


def read_mapping_file(given: str | os.PathLike[str]) -> MappingFile:
    """Reads a mapping file; a mistake raises an error with file, line and key."""
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
        tuple(whole.get(_MACHINES, ())),
    )


def _parsed(path: Path, text: str) -> tuple[dict[str, Any], Lines]:
    kind = path.suffix[1:].upper()
    if kind == "JSON" and not text.strip():
        text = "{}"  # so that an empty file gets the error of a missing version
    try:
        whole: object = toml_of(text) if kind == "TOML" else of_json(text)
    except (ValueError, RecursionError) as error:
        raise MappingFileError(f"{path}: not {kind}: {error}") from None
    if not isinstance(whole, dict):
        raise MappingFileError(f"{path}: expected an object with `version` and a list `{_TABLE}`")
    if kind == "JSON" and (mistake := mistake_in_json(text)):
        raise MappingFileError(f"{path}, {mistake}")
    lines = lines_of_toml(text, _TABLE) if kind == "TOML" else lines_of_json(text, _TABLE)
    return cast("dict[str, Any]", whole), lines


def _check_head(path: Path, whole: Mapping[str, object]) -> None:
    if whole.get("format") == TUNED:
        raise MappingFileError(f"{path}: a table of tuned mappings, and no mapping file: give it as tuned=")
    if "version" not in whole:
        wanted = f"version = {_VERSION}" if path.suffix == ".toml" else f'"version": {_VERSION}'
        raise MappingFileError(f"{path}: it says no version; write `{wanted}` at the top")
    version = whole["version"]
    if version != _VERSION or type(version) is not int:
        raise MappingFileError(f"{path}: version = {version!r}; this version of the workbench reads {_VERSION}")
    for key in whole:
        if key not in ("version", _MACHINES, _TABLE):
            what = f"{path}: unknown key {key!r}{did_you_mean(key, ('version', _MACHINES, _TABLE))}"
            raise MappingFileError(sentences(what, f"Expected version, {_MACHINES}, and entries under {_TABLE}"))
    if not _is_texts(whole.get(_MACHINES, ["none"])):
        told = f"{path}: {_MACHINES} = {whole[_MACHINES]!r:.60}: expected a list of names"
        raise MappingFileError(f"{told}, {_MACHINES} = ['mine']")
    if not isinstance(whole.get(_TABLE, []), list):
        raise MappingFileError(f"{path}: {_TABLE} is one table; expected a list of them, in TOML [[{_TABLE}]]")


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of an entry in a file."""

    path: Path
    lines: Lines
    number: int

    def line(self, key: str = "") -> int:
        """The line of a key; if that is unknown, of the entry; else of the list of entries."""
        places = (self.number, key), (self.number, ""), (-1, _TABLE)
        return next((self.lines[place] for place in places if place in self.lines), 1)

    def error(self, key: str, what: str) -> MappingFileError:
        """An error with file and line; for entries of a TOML list on one line, also with the entry's number."""
        entry = "" if (self.number, "") in self.lines else f", entry {self.number + 1}"
        return MappingFileError(f"{self.path}, line {self.line(key)}{entry}: {what}")


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
    lines = {key: place.line(key) for key in ("", *entry)}
    return Entry(lines, tuple(cast("list[str]", ops)), _shapes(place, entry.get("shapes")), machine, mapping)


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
