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
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import cast

from simulator.machine.figure_places import Figure, figure, with_figures
from simulator.machine.machine_record import MachineRecord
from simulator.machine.optional.shape import Cores, M, Shape, alike
from simulator.machine.optional.uneven_cores.own_figures import CLOCK_RATIO, LISTED, own_figures

_MOST_SHARES = 16
"""Of one core."""


def _of_core(machine: M, own: Mapping[str, Figure]) -> tuple[M, Fraction]:
    """A machine all of whose cores have these figures, and its clock as a part of the machine's."""
    figures = {**own, "core_figures": ""}
    ratio = Fraction(str(figures.pop(CLOCK_RATIO, 1)))
    return with_figures(machine, figures), ratio


def _kinds(machine: M) -> list[tuple[M, Fraction, list[int]]]:
    """The kinds of cores: for each the machine, its clock ratio, and its cores."""
    if not machine.core.own_figures:
        return alike(machine)
    kinds, own = dict[str, list[int]](), own_figures(machine)
    for core, figures in enumerate(own):
        kinds.setdefault(repr(sorted(figures.items())), []).append(core)
    return [(*_of_core(machine, own[cores[0]]), cores) for cores in kinds.values()]


def _shares(machine: MachineRecord) -> tuple[int, ...]:
    """The core of each share of the work: the one that would finish it first."""
    if not machine.core.own_figures:
        return tuple(range(machine.core.count))
    speed_of = speeds(machine)
    slowest = min(speed_of)
    parts = {core: (speed / slowest).limit_denominator(6) for core, speed in enumerate(speed_of)}
    whole = math.lcm(*(part.denominator for part in parts.values()))
    counts = {core: int(part * whole) for core, part in parts.items()}
    most = max(counts.values())
    if most > _MOST_SHARES:
        counts = {core: max(1, round(count * _MOST_SHARES / most)) for core, count in counts.items()}
    common = math.gcd(*counts.values())
    turns = [
        (Fraction(turn * common, count), -count, core)
        for core, count in counts.items()
        for turn in range(1, count // common + 1)
    ]
    return tuple(core for _, _, core in sorted(turns))


def speeds(machine: MachineRecord) -> list[Fraction]:
    """For each core, the products it adds up in a cycle of the machine's clock, relative to the machine's figure."""
    return [each / machine.macs_per_cycle for each in _macs_per_cycle(machine)]


def _macs_per_cycle(machine: MachineRecord) -> list[Fraction]:
    """This and `_fewest_lanes` read only the figures they need: a template is known by the figures that it reads."""
    return [
        Fraction(str(own.get(CLOCK_RATIO, 1)))
        * machine.array.count
        * _whole(machine, own, "systolic_rows")
        * _whole(machine, own, "systolic_columns")
        for own in own_figures(machine)
    ]


def _fewest_lanes(machine: MachineRecord) -> int:
    return min(_whole(machine, own, "vector_lanes") for own in own_figures(machine))


def _whole(machine: MachineRecord, own: Mapping[str, Figure], name: str) -> int:
    """A core's own figure, else the machine's."""
    return cast("int", own[name] if name in own else figure(machine, name))


def _mistakes(machine: MachineRecord) -> Iterator[str]:
    """Says nothing: reading a core's own figures raises for those that cannot be."""
    own_figures(machine)
    return iter(())


SHAPE = Shape(
    mistakes=_mistakes,
    cores=Cores(kinds=_kinds, macs_per_cycle=_macs_per_cycle, fewest_lanes=_fewest_lanes, shares=_shares),
    listed=LISTED,
)
