"""Energy of a run: counts of operations and bytes, times the machine's figures of energy, in picojoules.

    systolic        MACs, each counted once per pass of the precision
    vector, scalar  element operations of the ALUs and of the special function units
    other units     the counts of their descriptions: units/unit.py; of optional hardware `Feature.spends`
    scratchpad      bytes that instructions and copies read and write there; for a product see units/systolic.py
    dram            bytes moved, in whole requests, and ACTs

Banked memory counts its ACTs over a whole run; each kernel gets a part of them in proportion to its requests. For
simple memory ACTs are estimated: memory is divided into pieces as long as a row, and each piece that a copy touches
counts as one ACT. Not included: idle energy, refreshes, the clock, the interconnect, the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from simulator.machine.machine import Machine
from simulator.optional.feature_table import FEATURES
from simulator.records.spans import CHANNEL_COUNTERS, TOTALS, Launched, Via
from simulator.tileprogram.program import I64, Access, Space, TileProgram
from simulator.trace_record import TraceRecord
from simulator.units.gather import elements, requests
from simulator.units.request_addresses import Lie, walks
from simulator.units.unit import Mask
from simulator.units.unit_table import KIND_OF, UNITS

_SPENDS = tuple(row for feature in FEATURES for row in feature.spends)

FIGURES = {
    **{(unit.name, kind): figure for unit in UNITS for kind, figure in unit.energy.items()},
    ("scratchpad", "byte"): "scratchpad_pj_per_byte",
    **{(row.unit, row.kind): row.figure for row in _SPENDS},
    ("dram", "byte"): "dram_pj_per_bit",
    ("dram", "activate"): "dram_activate_pj",
}
"""(unit, kind of count) -> the machine's figure with the energy of each."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The energy of one kind of count on one unit, over all launches of a kernel."""

    kernel: str
    unit: str
    kind: str
    count: float
    """The number of operations or bytes; only a kernel's part of a run's ACTs is no whole number."""
    pj_each: float

    @property
    def pj(self) -> float:
        return self.count * self.pj_each


def energy_of(trace: TraceRecord) -> list[Spent]:
    """The energy of each kernel, by unit and kind, without counts of zero."""
    trace.check_has_programs("which its energy follows from")
    sums, figures = dict[tuple[str, str, str], float](), trace.machine.figures()
    each = {key: float(figures[name]) * (8 if name == "dram_pj_per_bit" else 1) for key, name in FIGURES.items()}
    for index, counted in _counted(trace):
        for (unit, kind), count in counted.items():
            key = trace.kernels[index], unit, kind
            sums[key] = sums.get(key, 0) + count
    return [Spent(*key, count, each[key[1:]]) for key, count in sums.items() if count]


def _counted(trace: TraceRecord) -> Iterator[tuple[int, dict[tuple[str, str], float]]]:
    """Yields (launch, its counts by unit and kind) for each launch of a program."""
    known = dict[tuple[int, bytes], dict[tuple[str, str], float]]()
    asked = trace.totals[:, TOTALS.index("dram_request_bytes")]
    activates = int(trace.channels[:, CHANNEL_COUNTERS.index("activates")].sum())
    for index, launched, rows in trace.programs():
        total = dict[str, int](zip(TOTALS, trace.totals[index].tolist(), strict=True))
        via = trace.via[rows]
        key = id(launched.program), via.tobytes()
        if key not in known:
            known[key] = dict(_of_program(launched.program, trace.machine, via != Via.SKIPPED))
            if trace.machine.dram.kind == "simple":
                known[key]["dram", "activate"] = _rows_touched(launched, trace.machine, via == Via.DRAM)
        part = {("dram", "activate"): activates * int(asked[index]) / int(asked.sum())} if activates else {}
        spent = {(row.unit, row.kind): sum(total[name] for name in row.totals) for row in _SPENDS}
        yield index, known[key] | part | spent | {("dram", "byte"): total["dram_request_bytes"]}


def _of_program(program: TileProgram, machine: Machine, done: Mask) -> Iterator[tuple[tuple[str, str], float]]:
    for unit in UNITS:
        for kind, count in unit.counts(program, machine, done).items():
            yield (unit.name, kind), count
    yield ("scratchpad", "byte"), int(scratchpad_bytes(program, machine)[done].sum())


def scratchpad_bytes(program: TileProgram, machine: Machine) -> I64:
    """For each instruction, the bytes that it reads from its scratchpad and writes to it, together."""
    owner = program.owners()
    ways = ((program.access & Access.READ) != 0).astype(np.int64) + ((program.access & Access.WRITE) != 0)
    size: I64 = elements(program) * program.element_bytes * ways * (program.space == Space.SCRATCHPAD)
    kind = KIND_OF[program.opcode[owner]]
    for place, unit in enumerate(UNITS):
        if unit.scratchpad_bytes is not None:
            size = np.where(kind == place, unit.scratchpad_bytes(program, machine), size)
    found = np.zeros(len(program), np.int64)
    np.add.at(found, owner, size)
    return found


def _rows_touched(launched: Launched, machine: Machine, asked: Mask) -> int:
    """The number of pieces of memory, as long as a row, that the instructions touch, each instruction for itself."""
    program, row = launched.program, machine.named_memory.row_bytes
    listed = requests(program, launched.addresses, launched.indices, machine)
    walked = walks(program, Lie(launched.addresses, launched.grids, machine), listed, asked)
    boxes, runs = walked.boxes, walked.runs.size[np.repeat(asked, np.diff(walked.run_start))]
    span = (np.abs(boxes.strides) * (boxes.extents - 1)).sum(1) + boxes.run
    touched = np.minimum(boxes.extents.prod(1) * -(-boxes.run // row), -(-span // row))
    return int(touched.sum()) + int((-(-runs // row)).sum())
