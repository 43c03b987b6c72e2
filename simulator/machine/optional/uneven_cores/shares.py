"""Cores that differ: each core's own figures, and its share of the work.

`wb.machine("tpu-v3", cores=[{}, {"systolic_rows": 64, "clock_ratio": 0.5}])` makes such a machine, as does `[[cores]]`
of a machine file. The machine keeps the list as a text, which is a figure like any other: "1: clock_ratio=0.5
systolic_rows=64". Queues, memory and issue run at the machine's clock; arrays, vector and scalar unit of a core at
`clock_ratio` times this clock. All cores have the same number of units.

Work for all cores is cut into equal shares. Each core gets a whole number of shares in proportion to its speed, the
products that it adds up in a cycle. Speeds relative to the slowest core's are rounded to fractions with denominators of
at most 6.
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
"""The most shares of one core."""


def _of_core(machine: M, own: Mapping[str, Figure]) -> tuple[M, Fraction]:
    """A machine all of whose cores have the figures `own`, and its clock as a part of `machine`'s clock."""
    figures = {**own, "core_figures": ""}
    ratio = Fraction(str(figures.pop(CLOCK_RATIO, 1)))
    return with_figures(machine, figures), ratio


def _kinds(machine: M) -> list[tuple[M, Fraction, list[int]]]:
    """The kinds of cores: for each kind a machine of such cores, its clock ratio, and the numbers of its cores."""
    if not machine.core.own_figures:
        return alike(machine)
    kinds, own = dict[str, list[int]](), own_figures(machine)
    for core, figures in enumerate(own):
        kinds.setdefault(repr(sorted(figures.items())), []).append(core)
    return [(*_of_core(machine, own[cores[0]]), cores) for cores in kinds.values()]


def _shares(machine: MachineRecord) -> tuple[int, ...]:
    """For each share of the work, the core that would finish it first."""
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
    """The products that each core adds up in a cycle of the machine's clock, at best.

    This function and `_fewest_lanes` read only the figures they need, since the key of a template has all figures that
    it reads.
    """
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
    """Yields nothing: reading a core's own figures raises for impossible ones."""
    own_figures(machine)
    return iter(())


SHAPE = Shape(
    mistakes=_mistakes,
    cores=Cores(kinds=_kinds, macs_per_cycle=_macs_per_cycle, fewest_lanes=_fewest_lanes, shares=_shares),
    listed=LISTED,
)
