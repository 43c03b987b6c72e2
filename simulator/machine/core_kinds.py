"""Cores that differ: each core's own figures, and its share of the work.

`wb.machine("tpu-v3", cores=[{}, {"systolic_rows": 64, "clock_ratio": 0.5}])` says it, or `[[cores]]` of a machine file,
and the machine keeps it as a text, which is a figure like any other: "1: clock_ratio=0.5 systolic_rows=64". Queues,
memory and issue go by the machine's clock; arrays, vector and scalar unit of a core by `clock_ratio` of it. How many
units a core has is the same for all.

Work that is spread over the cores is cut into as many shares as it takes to give each core a whole number of them in
proportion to the products it adds up in a cycle, as nearly as a sixth of the slowest core's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeVar, cast

from simulator.did_you_mean import did_you_mean, sentences
from simulator.errors import MachineError
from simulator.machine.figure_places import Figure, figure, with_figures
from simulator.machine.figures import most_of
from simulator.machine.machine_record import MachineRecord

M = TypeVar("M", bound=MachineRecord)

CLOCK_RATIO = "clock_ratio"
OWN = ("systolic_rows", "systolic_columns", "vector_lanes", "vector_alus", CLOCK_RATIO)
"""The figures that cores may have of their own."""

_CORE = re.compile(r"[0-9]{1,6}")
"""The number of a core."""

_FASTEST = 1_000_000
"""How many times as fast as the machine's a core's clock may be, and as slow: sums of its cycles stay exact."""

MOST_SHARES = 16
"""A core's own figures."""


def text_of(machine: str, cores: Sequence[object]) -> str:
    """The figure that a list of tables is kept as, one table a core."""
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
    """The figures that each core has instead of the machine's."""
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
    """The value of a figure that a core has of its own; `told` is the core and the figure, as the user called it."""
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


def of_core(machine: M, core: int) -> tuple[M, Fraction]:
    """A machine all of whose cores are like this one, and its clock as a part of the machine's."""
    own = own_figures(machine)[core]
    ratio = Fraction(str(own.pop(CLOCK_RATIO, 1)))
    return with_figures(machine, {**own, "core_figures": ""}), ratio


def kinds(machine: M) -> list[tuple[M, Fraction, list[int]]]:
    """The kinds of cores: for each the machine, its clock ratio, and its cores."""
    if not machine.core.own_figures:
        return [(machine, Fraction(1), list(range(machine.core.count)))]
    alike: dict[str, list[int]] = {}
    for core, own in enumerate(own_figures(machine)):
        alike.setdefault(repr(sorted(own.items())), []).append(core)
    return [(*of_core(machine, cores[0]), cores) for cores in alike.values()]


def shares(machine: MachineRecord) -> tuple[int, ...]:
    """The core of each share of the work: the one that would finish it first."""
    if not machine.core.own_figures:
        return tuple(range(machine.core.count))
    speed_of = speeds(machine)
    slowest = min(speed_of)
    parts = {core: (speed / slowest).limit_denominator(6) for core, speed in enumerate(speed_of)}
    whole = math.lcm(*(part.denominator for part in parts.values()))
    counts = {core: int(part * whole) for core, part in parts.items()}
    most = max(counts.values())
    if most > MOST_SHARES:
        counts = {core: max(1, round(count * MOST_SHARES / most)) for core, count in counts.items()}
    common = math.gcd(*counts.values())
    turns = [
        (Fraction(turn * common, count), -count, core)
        for core, count in counts.items()
        for turn in range(1, count // common + 1)
    ]
    return tuple(core for _, _, core in sorted(turns))


def speeds(machine: MachineRecord) -> list[Fraction]:
    """For each core, the products it adds up in a cycle of the machine's clock, relative to the machine's figure."""
    return [each / machine.macs_per_cycle for each in macs_per_cycle(machine)]


def macs_per_cycle(machine: MachineRecord) -> list[Fraction]:
    """For each core, the products that its arrays add up in a cycle of the machine's clock, at best.

    This and `fewest_lanes` read no other figures than they need: a template is known by the figures that it reads.
    """
    if not machine.core.own_figures:
        return [Fraction(machine.macs_per_cycle)] * machine.core.count
    return [
        Fraction(str(own.get(CLOCK_RATIO, 1)))
        * machine.array.count
        * _whole(machine, own, "systolic_rows")
        * _whole(machine, own, "systolic_columns")
        for own in own_figures(machine)
    ]


def fewest_lanes(machine: MachineRecord) -> int:
    """Lanes of each core's vector unit, or of that with the fewest."""
    if not machine.core.own_figures:
        return machine.vector.lanes
    return min(_whole(machine, own, "vector_lanes") for own in own_figures(machine))


def _whole(machine: MachineRecord, own: Mapping[str, Figure], name: str) -> int:
    """A core's own figure, else the machine's."""
    return cast("int", own[name] if name in own else figure(machine, name))
