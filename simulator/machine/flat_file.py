"""Machine files of version 1, which have no `version`: all figures in one table, by their flat names.

`assumed` lists unpublished figures, `[sources]` has a text for each other one. A fitted figure had a source that began
with `fitted: `; this file separates these.
"""

from __future__ import annotations

from typing import cast

from simulator.did_you_mean import did_you_mean
from simulator.errors import MachineError
from simulator.machine import core_kinds
from simulator.machine.figure_places import PARTS, PLACES, Figure
from simulator.machine.file_figures import FileFigures, Table, base_of, check_named, figure_of, told_in
from simulator.machine.machine import check_cores
from simulator.machine.provenance import Provenance, fitted_apart

_NOT_FIGURES = ("assumed", "sources", "base")


def read_flat(where: str, name: str, table: Table) -> FileFigures:
    """The figures of such a file; `where` is the file, `name` the machine's."""
    base = base_of(where, table)
    told = told_in(where, table.get("assumed", []), {}, table.get("sources", {}))
    figures = _figures(where, name, {key: value for key, value in table.items() if key not in _NOT_FIGURES})
    assumed, sources = told.assumed, dict(told.sources)
    if "core_figures" in figures and "cores" in sources:  # one list gave both
        sources.setdefault("core_figures", sources["cores"])
    elif "core_figures" in figures and "cores" in assumed:
        assumed = (*assumed, "core_figures")
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
        if key == "cores" and isinstance(value, list):
            cores = cast("list[object]", value)
            check_cores(name, cores)
            figures["core_figures"] = core_kinds.text_of(name, cores)
            value = len(cores)
        figures[key] = figure_of(f"{where}: {key}", value)
    return figures
