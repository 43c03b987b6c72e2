"""The figures that cores have of their own, a table for each core: `[[cores]]` of a machine file, or a list in Python.

A machine keeps these tables as a text: "1: clock_ratio=0.5 systolic_rows=64".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from simulator.did_you_mean import did_you_mean, sentences
from simulator.errors import MachineError
from simulator.machine.figure_places import PLACES, Figure
from simulator.machine.figures import most_of
from simulator.machine.machine_record import MachineRecord
from simulator.machine.optional.shape import Listed

CLOCK_RATIO = "clock_ratio"
OWN = ("systolic_rows", "systolic_columns", "vector_lanes", "vector_alus", CLOCK_RATIO)
"""The figures that cores may have of their own."""

_CORE = re.compile(r"[0-9]{1,6}")
"""Matches the number of a core."""

_FASTEST = 1_000_000
"""The largest factor between the machine's clock and a core's, either way, with which sums of cycles stay exact."""


HELD_IN = ("cores", "core_figures")
"""The flat names of the two figures that hold a list of cores."""


def figures_of(machine: str, cores: Sequence[object]) -> dict[str, Figure]:
    """The figures `HELD_IN` for a list of tables with flat names, one table per core."""
    if not cores:
        raise MachineError(
            f"machine {machine!r}: cores = []: the list is empty; expected a number, or a table for each core, which "
            "is empty for one with the machine's figures: [{}, {}]"
        )
    return dict(zip(HELD_IN, (len(cores), _text_of(machine, cores)), strict=True))


def _text_of(machine: str, cores: Sequence[object]) -> str:
    """The text of `core_figures` for a list of tables, one table per core."""
    lines = list[str]()
    for number, own in enumerate(cores):
        if not isinstance(own, Mapping):
            raise MachineError(
                f"machine {machine!r}: core {number} of `cores` is {own!r}; expected a table of its own figures"
            )
        figures = cast("Mapping[str, object]", own)
        for name, value in figures.items():
            if name in OWN and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise MachineError(
                    f"machine {machine!r}: core {number} of `cores`: {name} = {value!r:.60}: expected a number"
                )
        told = " ".join(f"{name}={value}" for name, value in sorted(figures.items()))
        lines += [f"{number}: {told}"] if told else []
    return "; ".join(lines)


def own_figures(machine: MachineRecord) -> list[dict[str, Figure]]:
    """For each core, the figures that it has instead of the machine's."""
    found: list[dict[str, Figure]] = [{} for _ in range(machine.core.count)]
    for line in filter(None, map(str.strip, machine.core.own_figures.split(";"))):
        number, _, told = line.partition(":")
        where = f"machine {machine.name!r}: core {number} of `cores`"
        if not _CORE.fullmatch(number) or int(number) >= machine.core.count:
            given = f"machine {machine.name!r}: core_figures = {machine.core.own_figures!r}"
            raise MachineError(f"{given}: there is no core {number!r}; the machine has {machine.core.count}, from 0 on")
        for each in told.split():
            name, _, value = each.partition("=")
            if name not in OWN:
                what = f"{where}: a core has no {name!r} of its own{did_you_mean(name, OWN)}"
                raise MachineError(sentences(what, f"Expected some of {', '.join(OWN)}"))
            if name in found[int(number)]:
                raise MachineError(f"{where}: {name} is given twice, the second time as {value:.60}")
            found[int(number)][name] = own_figure(f"{where}: {name}", name, value)
    return found


def own_figure(told: str, name: str, value: str) -> Figure:
    """The value of a core's own figure, checked; `told` names the core and the figure in messages."""
    try:
        number = float(value) if name == CLOCK_RATIO else int(value)
    except ValueError:
        number = math.nan
    if not value.isascii():  # Python reads the digits of every script
        number = math.nan
    least, most = (1 / _FASTEST, _FASTEST) if name == CLOCK_RATIO else (1, most_of(name))
    if not least <= number <= most:
        what = "a number" if name == CLOCK_RATIO else "a whole number"
        raise MachineError(f"{told} = {value:.60}: expected {what}, more than zero and at most {most:,}")
    return number


def read_cores(where: str, name: str, given: object) -> dict[str, Figure]:
    """The figures `HELD_IN` for `[[cores]]` of a machine file; `where` is the file, `name` the machine's."""
    if not isinstance(given, list):
        raise MachineError(f"{where}: cores = {given!r:.60}: expected [[cores]], a table a core; their count is [core]")
    cores = cast("list[object]", given)
    own = [_from_table(f"{where}: core {number} of [[cores]]", core) for number, core in enumerate(cores)]
    return figures_of(name, own)


_OWN = {
    CLOCK_RATIO: CLOCK_RATIO,
    **{f"{PLACES[flat].part}.{PLACES[flat].field}": flat for flat in OWN if flat in PLACES},
}
"""The file's name of a core's own figure -> its flat name."""


def _from_table(where: str, core: object) -> dict[str, Figure]:
    """A core's own figures by flat names, from its table in a machine file."""
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
    """The entries of a table; an entry of an inner table has a key such as `array.rows`."""
    for key, value in table.items():
        if isinstance(value, dict):
            for inner, each in cast("dict[str, object]", value).items():
                yield f"{key}.{inner}", each
        else:
            yield key, value


LISTED = Listed(key="cores", figures=HELD_IN, read=figures_of, read_file=read_cores)
