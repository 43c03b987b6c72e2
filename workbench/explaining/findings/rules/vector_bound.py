"""The vector unit. A pass takes the longer time of its ALUs and of its special functions, plus its moves across lanes:
the trees of a reduction along the lanes, and the spreading of the result over them. The remedy depends on the part that
dominates a kernel's passes."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.analysis.binding import VECTOR
from simulator.machine.machine import Machine
from simulator.tileprogram.program import Opcode, TileProgram
from simulator.units import vector
from workbench.explaining.findings import Facts, Finding, Remedy, finding, percent

BOUND = 0.25
"""The least share of a kernel's cycles with waits for the vector unit that the rule reports."""
_TIMES = {
    "special functions": "special_interval_cycles",
    "moves across lanes": "cross_lane_step_cycles",
    "turned tiles": "transpose_cycles_per_vector",
}
"""Part of a vector pass -> the figure of the vector unit that decides its cycles."""


@finding("vector bound")
def vector_bound(facts: Facts) -> Iterator[Finding]:
    for kernel in facts.computed:
        waits = kernel.part("vector")
        if waits < BOUND * max(kernel.cycles, 1):
            continue
        shares = parts(kernel.scheduled.program, facts.machine)
        first, *rest = sorted(shares, key=lambda name: -shares[name])
        whole = sum(shares.values()) or 1
        also = f", then {rest[0]} ({percent(shares[rest[0]], whole)})" if shares[rest[0]] > 0.1 * whole else ""
        figure, value = _faster(first, facts.machine)
        yield Finding(
            kernel.name,
            round(waits * shares[first] / whole),
            f"the kernel waits for the vector unit in {percent(waits, kernel.cycles)} of its cycles, most of all "
            f"for {first} ({percent(shares[first], whole)} of its passes){also}",
            kernel.showing("vector"),
            remedy=Remedy.of_machine(**{figure: value}) if value != getattr(facts.machine, figure) else None,
            about=VECTOR,
        )


def parts(program: TileProgram, machine: Machine) -> dict[str, int]:
    """Cycles of all vector passes of a program, by part."""
    passes = program.opcode == Opcode.VECTOR
    return {name: int(cycles[passes].sum()) for name, cycles in vector.parts(program, machine).items()}


def _faster(part: str, machine: Machine) -> tuple[str, int]:
    """The figure that halves a part, and its value."""
    figure = _TIMES.get(part, "")
    if figure and (now := getattr(machine.vector, figure)) > 1:
        return figure, now // 2
    alus, lanes = ("vector_alus", 2 * machine.vector.alus), ("vector_lanes", 2 * machine.vector.lanes)
    return alus if part == "arithmetic" else lanes
