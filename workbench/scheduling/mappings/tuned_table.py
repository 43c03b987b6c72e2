"""The table of tuned mappings: a file that `j.tuned().save(path)` writes and later compiles use, `tuned=path`.

An entry is for kernels that are the same function of the same shapes and element types, on a machine with the same
figures. The file names the version of the workbench that made it: another version may choose, price and simulate
differently, so that the mappings need not be faster there.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

from simulator.did_you_mean import not_there
from simulator.files import visible_text
from simulator.files.regular_files import check_readable
from simulator.files.versioned_files import replace_file
from simulator.machine.machine import Machine
from workbench.ground.errors import TunedTableError
from workbench.ground.version import VERSION as WORKBENCH
from workbench.ir.kernel_identity import machine_key
from workbench.scheduling.mappings.kernel_kind import KernelKind
from workbench.scheduling.mappings.key_lines import mistake_in_json
from workbench.scheduling.user_mapping import OF_A_KERNEL, UserMapping, mistake_in

FORMAT, VERSION = "aten-workbench/tuned-mappings", 1
HEAD = ("format", "version", "made_by", "machine", "machine_key", "minimum_gain")
"""The keys of a file, except `entries`."""
_AGAIN = "Tune again, and save the table anew: j.tuned().save(path)"
_LEFT = "The file is left as it is: give another path, or remove it"


@dataclass(frozen=True, slots=True)
class TunedEntry:
    """A mapping that was faster than the heuristic's."""

    kernel: str
    """The kernel's name in the tuned journey, for readers."""
    ops: tuple[str, ...]
    arguments: tuple[str, ...]
    key: str
    before: int
    """Cycles of a launch with the kernel's former mapping."""
    after: int
    mapping: UserMapping

    @property
    def gain(self) -> float:
        return 1 - self.after / self.before


@dataclass(frozen=True, slots=True)
class TunedTable:
    """The entries of a file for one machine."""

    path: str
    machine: str
    machine_key: str
    minimum_gain: float
    entries: tuple[TunedEntry, ...]

    def entry_for(self, kernel: KernelKind) -> TunedEntry | None:
        return next((each for each in self.entries if each.key == kernel.key), None)

    def is_for(self, machine: Machine) -> bool:
        return self.machine_key == machine_key(machine)

    def __repr__(self) -> str:
        return repr(self.path)


def table_to_add_to(path: str | os.PathLike[str], machine: Machine) -> TunedTable | None:
    """The table in a file; None if the file does not exist or is empty. Raises for another machine's table and for any
    other content, which writing would overwrite."""
    if not os.path.isfile(path) or not os.path.getsize(path):
        return None
    found = read_tuned_table(path, saving=True)
    if found.entries and not found.is_for(machine):
        count = f"{len(found.entries)} mapping{'s' if len(found.entries) > 1 else ''}"
        raise TunedTableError(
            f"{path}: holds {count} tuned for {found.machine}, and these are for {machine.label}, "
            f"another machine or one of other figures. {_LEFT}"
        )
    return found


def write_tuned_table(table: TunedTable) -> None:
    """Writes the whole file, or leaves the old one if that fails."""
    told = (FORMAT, VERSION, WORKBENCH, table.machine, table.machine_key, table.minimum_gain)
    whole = {**dict(zip(HEAD, told, strict=True)), "entries": [asdict(each) for each in table.entries]}
    replace_file(table.path, (json.dumps(whole, indent=1) + "\n").encode())


def read_tuned_table(given: str | os.PathLike[str], *, saving: bool = False) -> TunedTable:
    """Reads the table of a file; raises for another version and for a damaged file. With `saving`, the advice in errors
    is for a user who saves to this file."""
    path = Path(given)
    again, hint = _AGAIN, "; a file of mappings by hand is given as mapping="
    if saving:
        again, hint = _LEFT, f"{hint}. {_LEFT}"
    try:
        check_readable(path)
        text = path.read_text("utf-8")
        whole: object = visible_text.of_json(text)
    except FileNotFoundError:
        raise TunedTableError(f"tuned={os.fspath(given)!r}: {not_there(path)}") from None
    except OSError as error:
        raise TunedTableError(f"tuned={os.fspath(given)!r} cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:
        raise TunedTableError(f"{path}: no table of tuned mappings: not JSON: {error}{hint}") from None
    if not isinstance(whole, dict) or cast("dict[str, Any]", whole).get("format") != FORMAT:
        raise TunedTableError(f"{path}: no table of tuned mappings: expected what j.tuned().save(path) wrote{hint}")
    told = cast("dict[str, Any]", whole)
    if told.get("version") != VERSION or type(told.get("version")) is not int:
        raise TunedTableError(f"{path}: a table of version {told.get('version')!r}, expected {VERSION}. {again}")
    if told.get("made_by") != WORKBENCH:
        what = f"{path}: made with aten-workbench {told.get('made_by')}, and this is {WORKBENCH}"
        raise TunedTableError(f"{what}, which may schedule and simulate differently. {again}")
    try:
        if mistake := mistake_in_json(text):
            raise ValueError(mistake)
        return _table(path, told)
    except (KeyError, TypeError, ValueError) as error:
        raise TunedTableError(f"{path}: damaged or edited: {_reason(error)}. {again}") from None


def _reason(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)


def _table(path: Path, told: dict[str, Any]) -> TunedTable:
    if unknown := told.keys() - {*HEAD, "entries"}:
        raise ValueError(f"unknown key {min(unknown)!r}")
    gain = told["minimum_gain"]
    if isinstance(gain, bool) or not isinstance(gain, int | float) or not 0 <= gain < 1:
        raise ValueError(f"minimum_gain = {gain!r} is no part of the cycles, from 0 to less than 1")
    machine, key = (_text(told[name], name) for name in ("machine", "machine_key"))
    if not isinstance(told["entries"], list):
        raise ValueError("entries is no list")
    entries = tuple(_entry(number, each) for number, each in enumerate(cast("list[object]", told["entries"])))
    known = dict[str, int]()
    for number, each in enumerate(entries):
        if known.setdefault(each.key, number) != number:
            raise ValueError(f"entries {known[each.key]} and {number} are for the same kernels")
    return TunedTable(str(path), machine, key, float(gain), entries)


def _entry(number: int, given: object) -> TunedEntry:
    if not isinstance(given, dict):
        raise ValueError(f"entry {number} is no object")
    entry = cast("dict[str, Any]", given)
    where = f"entry {number}: "
    if missing := [each.name for each in fields(TunedEntry) if each.name not in entry]:
        raise ValueError(f"{where}{missing[0]!r} is missing")
    if unknown := entry.keys() - {each.name for each in fields(TunedEntry)}:
        raise ValueError(f"{where}unknown key {min(unknown)!r}")
    mapping = entry["mapping"]
    if not isinstance(mapping, dict) or set(cast("dict[str, object]", mapping)) != set(OF_A_KERNEL):
        raise ValueError(f"{where}mapping = {mapping!r:.60}: expected {', '.join(OF_A_KERNEL)}")
    for key, value in cast("dict[str, object]", mapping).items():
        if mistake := mistake_in(key, value):
            raise ValueError(where + mistake)
    tile, order = cast("dict[str, int]", mapping["tile"]), cast("list[str]", mapping["order"])
    if tile.keys() != set(order):
        said = f"the tile has the dims {', '.join(tile) or 'none'}, and the order {', '.join(order) or 'none'}"
        raise ValueError(where + said)
    before, after = entry["before"], entry["after"]
    if not all(type(each) is int for each in (before, after)) or not 0 < after <= before:
        raise ValueError(f"{where}before = {before!r:.30} and after = {after!r:.30} are no cycles and fewer ones")
    ops, arguments = (_texts(entry[name], f"{where}{name}") for name in ("ops", "arguments"))
    kernel, key = (_text(entry[name], f"{where}{name}") for name in ("kernel", "key"))
    return TunedEntry(kernel, ops, arguments, key, before, after, cast("UserMapping", mapping))


def _texts(value: object, name: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{name} = {value!r:.60} is no list of texts")
    return tuple(_text(each, name) for each in cast("list[object]", value))


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} = {value!r:.60} is no text")
    return value
