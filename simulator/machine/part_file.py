"""Reads machine files: a table for each part, with its figures by the names that they have in the part's record.

    version = 1
    base = "edge-8x8"
    clock_mhz = 1_000
    sources = {clock_mhz = "data sheet, page 12"}

    [vector]
    lanes = 16
    alus = 2
    assumed = ["alus"]

    [vector.sources]
    lanes = "data sheet, page 4"

Each table names the origin of its figures: a text in `sources`, a text in `fitted` (by what, and to which measurement),
or the figure's name in `assumed`. Some figures may be a list of tables: `Listed` of optional/shape.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from simulator.did_you_mean import did_you_mean, sentences
from simulator.errors import MachineError
from simulator.machine.figure_places import FLAT_NAMES, PARTS, PLACES, Figure
from simulator.machine.figures import check_figure
from simulator.machine.file_figures import FileFigures, Origins, Table, check_named, figure_of, origins_in
from simulator.machine.optional.shape_table import LISTED
from simulator.machine.provenance import KINDS, OVERRIDE, Provenance

VERSION = 1

_HEAD = ("version", "base")
_LISTS = {listed.key: listed for listed in LISTED}
_TOP = tuple(field for part, field in FLAT_NAMES if not part and field != "name")


def read_parts(where: str, name: str, table: Table) -> FileFigures:
    """The figures of a machine file; `where` names the file in messages, `name` is the machine's name."""
    base = table.get("base")
    if base is not None and not isinstance(base, str):
        raise MachineError(f"{where}: base = {base!r} is no name of a machine")
    _check_head(where, table)
    figures: dict[str, Figure] = {}
    by_kind: dict[str, list[str]] = {kind: [] for kind in KINDS}
    texts: dict[str, str] = {}
    for part in ("", *PARTS):
        section = _section(where, part, table)
        at = f"{where}: [{part}]" if part else where
        origins = origins_in(at, *(section.get(key, {} if key != "assumed" else []) for key in KINDS))
        own = _figures_of(where, part, section)
        flat_names: dict[str, tuple[str, ...]] = {field: (flat,) for field, flat in own.items()}
        figures |= {flat: cast(Figure, section[field]) for field, flat in own.items()}
        for key in () if part else _LISTS.keys() & section.keys():
            figures |= _LISTS[key].read_file(where, name, section[key])
            flat_names[key] = _LISTS[key].figures
        check_named(at, origins, flat_names)
        _check_sources(at, origins)
        for field, flats in flat_names.items():
            kind = _kind(at, part, field, origins)
            by_kind[kind] += flats
            text = origins.fitted.get(field, origins.sources.get(field, ""))
            texts |= dict.fromkeys(flats, text)
    _check_lists_once(where, table)
    fitted, sources = ({flat: texts[flat] for flat in by_kind[kind]} for kind in ("fitted", "sources"))
    written = {flat: place.written for flat, place in PLACES.items()}
    return FileFigures(figures, Provenance.of(by_kind["assumed"], fitted, sources), base, written)


def _section(where: str, part: str, table: Table) -> Table:
    """The table of a part, empty if the file has none; for part "", the keys above all tables."""
    if not part:
        return {key: value for key, value in table.items() if key not in PARTS and key not in _HEAD}
    section = table.get(part, {})
    if not isinstance(section, dict):
        raise MachineError(f"{where}: {part} = {section!r:.60}: expected a table, [{part}], with figures of its own")
    return cast("dict[str, object]", section)


def _check_head(where: str, table: Table) -> None:
    """Raises for unknown keys above all tables."""
    known = (*_HEAD, *_TOP, *KINDS, *_LISTS, *PARTS)
    for key, value in table.items():
        if key in known:
            continue
        if key == "name":
            raise MachineError(f"{where}: name = {value!r:.60}: a machine is called as its file is; leave the name out")
        if key in PLACES:
            raise MachineError(f"{where}: {key!r} is a flat name; in a file it is {PLACES[key].written}")
        what = "table" if isinstance(value, dict) else "figure"
        near = did_you_mean(key, known)
        raise MachineError(sentences(f"{where}: unknown {what} {key!r}{near}", f"Tables are {', '.join(PARTS)}"))


def _figures_of(where: str, part: str, section: Table) -> dict[str, str]:
    """Checks each value in a section; returns field -> flat name of the figures that it sets."""
    fields = [field for each, field in FLAT_NAMES if each == part]
    found: dict[str, str] = {}
    for key, value in section.items():
        if key in KINDS or (not part and key in _LISTS):
            continue
        if key not in fields:
            raise MachineError(f"{where}: [{part}] has no figure {key!r}{_instead(key, fields)}")
        flat = found[key] = FLAT_NAMES[part, key]
        told = f"{where}: {PLACES[flat].written}"
        check_figure(told, flat, PLACES[flat].kind, figure_of(told, value))
    return found


def _instead(key: str, fields: Iterable[str]) -> str:
    """A guess at what an unknown key should be, for the message: a key of this table or of another one."""
    if key in PLACES and PLACES[key].part:
        return f": it is a flat name; in a file it is {PLACES[key].written}"
    near = did_you_mean(key, fields)
    elsewhere = [f"[{part}]" for part, field in FLAT_NAMES if field == key and part]
    return near or (f"; {' and '.join(elsewhere)} has one" if elsewhere else f"; it has {', '.join(fields)}")


def _kind(at: str, part: str, field: str, origins: Origins) -> str:
    """A figure's kind of provenance: `assumed`, `fitted` or `sources`. Raises unless there is exactly one."""
    kinds = origins.kinds(field)
    if len(kinds) > 1:
        raise MachineError(f"{at}: {field} stands in {' and in '.join(kinds)}; expected one of them")
    if not kinds:
        table = f"{part}." if part else ""
        raise MachineError(
            f"{at}: {field} does not say where it comes from; expected a text in [{table}sources] or, with what it was "
            f"fitted by, in [{table}fitted], or its name in the table's `assumed`"
        )
    return kinds[0].strip("[]`")


def _check_sources(at: str, origins: Origins) -> None:
    """Raises for a source that only says `assumed`, `fitted` or `override`."""
    for field, text in origins.sources.items():
        word = text.strip().partition(":")[0].strip().lower()
        if word in ("assumed", "fitted", OVERRIDE):
            kind = "what was fitted stands in [fitted]" if word == "fitted" else "what is assumed stands in `assumed`"
            raise MachineError(
                f"{at}: sources: {field} = {text!r:.60} is no source; expected where it is published ({kind})"
            )


def _check_lists_once(where: str, table: Table) -> None:
    """Raises if a file has both a list and one of the figures for which the list stands."""
    for listed in LISTED:
        for place in (PLACES[flat] for flat in listed.figures):
            section = cast("Mapping[str, object]", table.get(place.part, {}))
            if listed.key in table and place.field in section:
                raise MachineError(f"{where}: [[{listed.key}]] and {place.written} say the same; expected one of both")
