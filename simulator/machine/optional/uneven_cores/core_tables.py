"""`[[cores]]` of a machine file: a table for each core, of the figures that it has of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from simulator.did_you_mean import did_you_mean, sentences
from simulator.errors import MachineError
from simulator.machine.figure_places import PLACES, Figure
from simulator.machine.optional.uneven_cores.own_figures import CLOCK_RATIO, OWN, figures_of, own_figure


def read_cores(where: str, name: str, given: object) -> dict[str, Figure]:
    """The figures that hold `[[cores]]`."""
    if not isinstance(given, list):
        raise MachineError(f"{where}: cores = {given!r:.60}: expected [[cores]], a table a core; their count is [core]")
    cores = cast("list[object]", given)
    own = [_own(f"{where}: core {number} of [[cores]]", core) for number, core in enumerate(cores)]
    return figures_of(name, own)


_OWN = {
    CLOCK_RATIO: CLOCK_RATIO,
    **{f"{PLACES[flat].part}.{PLACES[flat].field}": flat for flat in OWN if flat in PLACES},
}
"""The file's name of a core's own figure -> its flat name."""


def _own(where: str, core: object) -> dict[str, Figure]:
    """A core's own figures, by flat names."""
    if not isinstance(core, dict):
        raise MachineError(f"{where} is {core!r:.60}; expected a table of its own figures")
    found: dict[str, Figure] = {}
    for key, value in _dotted(cast("dict[str, object]", core)):
        if key not in _OWN:
            what = f"{where}: a core has no {key!r} of its own{did_you_mean(key, _OWN)}"
            raise MachineError(sentences(what, f"Expected some of {', '.join(_OWN)}"))
        if isinstance(value, str | bool):
            raise MachineError(f"{where}: {key} = {value!r:.60}: expected a number")
        if _OWN[key] in found:
            raise MachineError(f"{where}: {key} is given twice, as {key!r} and in a table; expected one of both")
        found[_OWN[key]] = own_figure(f"{where}: {key}", _OWN[key], str(value))
    return found


def _dotted(table: Mapping[str, object]) -> Iterable[tuple[str, object]]:
    """`array.rows` for an entry in a table of a table."""
    for key, value in table.items():
        if isinstance(value, dict):
            for inner, each in cast("dict[str, object]", value).items():
                yield f"{key}.{inner}", each
        else:
            yield key, value
