"""The part of the machine that binds a run: the part with most cycles of the run's critical path.

Each cycle of the critical path belongs to one part, so the parts' shares add up to all cycles. With several cores the
path goes through the last core, for which the others wait. The share of this waiting is the time that evenly shared
work would save, but no more than the run's bytes allow, since all cores share one memory; the other shares are
reduced accordingly. Beside the shares, `Binding` has how near memory, arrays and vector unit come to their roofs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simulator.analysis.critical_path import Step, critical_path_of
from simulator.analysis.machine_roofs import ARRAYS, MEMORY, ROOFS, VECTOR, loads
from simulator.tileprogram.barriers import meetings
from simulator.tileprogram.program import Opcode
from simulator.trace_record import TraceRecord
from simulator.units.unit_table import DOES, UNIT_OF

SCALAR, HOST, LAUNCHES, CORES, ISSUE = "scalar unit", "host", "launches", "cores that wait", "issue"
PARTS = (MEMORY, ARRAYS, VECTOR, SCALAR, HOST, LAUNCHES, ISSUE, CORES)
"""All parts that can bind a run."""

_OF_UNIT = {"DMA": MEMORY, "systolic": ARRAYS, "vector": VECTOR, "scalar": SCALAR, "host": HOST}
_OF_LABEL = {
    **{told.label: _OF_UNIT[UNIT_OF[opcode].name] for opcode, told in zip(Opcode, DOES, strict=True)},
    **{"barrier": CORES, "launch": LAUNCHES},
}


_LEAST = 0.005
"""The least share that a text shows: a smaller one would be rounded to 0%."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The parts' shares of a run's cycles."""

    shares: Mapping[str, float]
    """Part -> its share, the largest first; the shares add up to 1."""
    peaks: Mapping[str, float]
    """For memory, arrays and vector unit: the least cycles that the run's work needs there, as a part of the run's
    cycles: how near each comes to its roof. Empty for a trace without programs."""
    latency: float = 0.0
    """The part of memory's share in which the run waits for a first byte and no byte moves."""

    @property
    def by(self) -> str:
        """The part that binds the run; empty for a run of no cycles."""
        return next(iter(self.shares), "")

    def text(self) -> str:
        """`bound by memory: 83% of its cycles (latency 5%), vector unit 9%, launches 8%; of their roofs: memory 7%`."""
        if not self.shares:
            return "bound by nothing: it takes no cycles"
        first, *others = self.shares.items()
        told = [f"{first[1]:.0%} of its cycles{self._latency(first[0])}"]
        told += [f"{part} {share:.0%}{self._latency(part)}" for part, share in others if share >= _LEAST]
        rates = ", ".join(f"{part} {share:.0%}" for part, share in self.peaks.items())
        return f"bound by {first[0]}: {', '.join(told)}" + (f"; of their roofs: {rates}" if rates else "")

    def _latency(self, part: str) -> str:
        return f" (latency {self.latency:.0%})" if part == MEMORY and self.latency >= _LEAST else ""


def binding_of(trace: TraceRecord, path: list[Step] | None = None) -> Binding:
    """The shares of a run's parts; `path` is the run's critical path, if that is known already."""
    path = critical_path_of(trace) if path is None else path
    whole, known = max(trace.makespan, 1), bool(trace.launches)
    waiting = sum(_waiting(trace, path)) / whole if known and trace.machine.core.count > 1 else 0.0
    shares, latency = {CORES: waiting} if waiting else {}, 0.0
    for step in path:
        part, share = part_of(step.what), step.cycles / whole * (1 - waiting)
        shares[part] = shares.get(part, 0.0) + share
        latency += share if _is_latency(step.what) else 0.0
    largest = sorted(shares.items(), key=lambda pair: -pair[1])
    return Binding(dict(largest), _peaks(trace, whole) if known else {}, latency)


def part_of(what: str) -> str:
    """The part of the machine for an activity of the critical path, by the activity's name in the waterfall."""
    return next((_OF_LABEL[word] for word in what.split() if word in _OF_LABEL), ISSUE)


def _is_latency(what: str) -> bool:
    return what.endswith(" latency") and part_of(what) == MEMORY


def waits_at_end(trace: TraceRecord, launch: int) -> float:
    """Cycles from the mean end of a launch's cores to the end of its last core."""
    rows = trace.rows_of(launch)
    done = np.full(trace.machine.core.count, trace.begins[launch])
    np.maximum.at(done, trace.core[rows], trace.done[rows])
    return float(done.max() - done.mean())


def _peaks(trace: TraceRecord, whole: int) -> dict[str, float]:
    found = loads(trace)
    return {part: sum(load.least[ROOFS.index(part)] for load in found) / whole for part in (MEMORY, ARRAYS, VECTOR)}


def _waiting(trace: TraceRecord, path: list[Step]) -> list[float]:
    """For each launch, the cycles that its cores wait on average for the last core, at barriers and at the end.

    Cycles that the latency of the memory or the launch's bytes need anyway are left out.
    """
    found, spans = list[float](), trace.kernel_spans
    latency = np.zeros(len(spans))
    for step in path:
        latency[step.launch] += step.cycles if _is_latency(step.what) else 0
    for place, launched, rows in trace.programs():
        _, begin, end = spans[place]
        if end == begin:
            continue
        waits = waits_at_end(trace, place)
        for meeting in meetings(launched.program):
            came = trace.issue[rows.start + np.array(meeting)]
            waits += float(came.max() - came.mean())
        taken = end - begin
        beyond = taken - float(trace.requested[rows].sum()) / float(trace.machine.bus_bytes_per_cycle)
        found.append(max(0.0, min(waits * (1 - latency[place] / taken), beyond)))
    return found
