"""Machine files of version 1, which have no `version`: all figures in one table, by their flat names.

`assumed` lists unpublished figures, `[sources]` has a text for each other one. A fitted figure had a source that began
with `fitted: `; this file separates these.
"""

from __future__ import annotations

from typing import cast

from simulator.did_you_mean import did_you_mean
from simulator.errors import MachineError
from simulator.machine.figure_places import PARTS, PLACES, Figure
from simulator.machine.file_figures import FileFigures, Table, base_of, check_named, figure_of, told_in
from simulator.machine.optional.shape_table import LISTED
from simulator.machine.provenance import Provenance, fitted_apart

_NOT_FIGURES = ("assumed", "sources", "base")


def read_flat(where: str, name: str, table: Table) -> FileFigures:
    """The figures of such a file; `where` is the file, `name` the machine's."""
    base = base_of(where, table)
    told = told_in(where, table.get("assumed", []), {}, table.get("sources", {}))
    figures = _figures(where, name, {key: value for key, value in table.items() if key not in _NOT_FIGURES})
    assumed, sources = told.assumed, dict(told.sources)
    for listed in LISTED:  # one list gave all of its figures
        for figure in (each for each in listed.figures if each in figures):
            if listed.key in sources:
                sources.setdefault(figure, sources[listed.key])
            elif listed.key in assumed:
                assumed = (*assumed, figure)
    check_named(where, told, figures)
    for key in figures:
        if key in sources and key in assumed:
            raise MachineError(f"{where}: {key} has a source and stands in `assumed` as well; expected one of both")
        if key not in sources and key not in assumed and key != "name":
            raise MachineError(f"{where}: {key} needs a source, or a place in `assumed`")
    return FileFigures(figures, Provenance.of(dict.fromkeys(assumed), *fitted_apart(sources)), base)


def _figures(where: str, name: str, table: Table) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    for key, value in table.items():
        if key in PARTS and isinstance(value, dict):
            raise MachineError(
                f"{where}: [{key}] is a table, as files of version 2 have them; write `version = 2` above all tables"
            )
        if key not in PLACES:
            raise MachineError(f"{where}: unknown figure {key!r}{did_you_mean(key, PLACES)}")
        listed = next((each for each in LISTED if each.key == key), None)
        if listed is not None and isinstance(value, list):
            figures |= listed.read(name, cast("list[object]", value))
        else:
            figures[key] = figure_of(f"{where}: {key}", value)
    return figures
