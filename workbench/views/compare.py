"""Journeys side by side, as plain data: figures, kernels, idle time by cause, and timelines on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator import Trace
from workbench.views import letters, markup, timeline
from workbench.views.gantt import Gantt
from workbench.views.svg_gantt import gantt_svg
from workbench.views.table import Cell, Table

_FIGURES = (
    "cycles",
    "time_us",
    "launches",
    "instructions",
    "dram_read_bytes",
    "dram_write_bytes",
    "macs",
    "dram_share_of_peak",
    "macs_share_of_peak",
)


@dataclass(frozen=True)
class Compared:
    """Simulated journeys by name."""

    names: tuple[str, ...]
    traces: tuple[Trace, ...]

    def figures(self) -> Table:
        """One row a figure, one column a journey: what was replaced of a machine, then figures of the run, cycles by
        kernel and idle unit cycles by cause."""
        told = [timeline.stats(trace) for trace in self.traces]
        figures: list[tuple[Cell, ...]] = [("figure", name, *(each[name] for each in told)) for name in _FIGURES]
        kernels = [timeline.kernel_cycles(trace) for trace in self.traces]
        causes = [idle_by_cause(trace) for trace in self.traces]
        machines = [trace.machine for trace in self.traces]
        named = ("machine", "", *(machine.name for machine in machines))
        replaced = dict.fromkeys(figure for machine in machines for figure in machine.overrides)
        told_apart = [("machine", figure, *(machine.figures()[figure] for machine in machines)) for figure in replaced]
        rows = [named, *told_apart, *figures, *_merged("kernel cycles", kernels), *_merged("idle", causes)]
        return Table(("part", "what", *self.names), tuple(rows))

    def ratios(self) -> Table:
        """Cycles and time of each, and as a multiple of the first one's."""
        first = self.traces[0]
        rows = tuple(
            (
                name,
                trace.machine.label,
                trace.makespan,
                trace.machine.microseconds(trace.makespan),
                trace.makespan / max(first.makespan, 1),
                trace.machine.microseconds(trace.makespan) / max(first.machine.microseconds(first.makespan), 1e-12),
            )
            for name, trace in zip(self.names, self.traces, strict=True)
        )
        return Table(("journey", "machine", "cycles", "time_us", "cycles_ratio", "time_ratio"), rows)

    def gantts(self) -> tuple[Gantt, ...]:
        return tuple(map(timeline.gantt_of, self.traces))

    def text(self, *, width: int = 72) -> str:
        """Ratios, figures, and the timelines below each other on one scale of time."""
        longest = max(trace.machine.microseconds(trace.makespan) for trace in self.traces)
        parts = [self.ratios().text(), "", self.figures().text()]
        for name, trace in zip(self.names, self.traces, strict=True):
            part = trace.machine.microseconds(trace.makespan) / max(longest, 1e-12)
            parts += ["", name, letters.timeline_text(timeline.gantt_of(trace), width=max(8, round(width * part)))]
        return "\n".join(parts)

    def html(self) -> str:
        """The same as HTML; the pictures span the same time from edge to edge."""
        longest = max(trace.machine.microseconds(trace.makespan) for trace in self.traces)
        parts = [markup.table(self.ratios()), markup.table(self.figures(), named=self.names)]
        for name, view in zip(self.names, self.gantts(), strict=True):
            parts.append(
                f"<h3>{markup.escape(name)}</h3>{gantt_svg(view, scale=round(longest * view.clock_mhz), label=name)}"
            )
        return markup.fragment("".join(parts))


def idle_by_cause(trace: Trace) -> dict[str, int]:
    """Idle cycles of all units together, by cause, those of units that do nothing left out."""
    found: dict[str, int] = {}
    for row in trace.stalls():
        for name, cycles in row.items():
            if row["busy"] and name not in ("unit", "busy", "total") and cycles:
                found[name] = found.get(name, 0) + int(cycles)
    return found


def _merged(part: str, each: Sequence[dict[str, int]]) -> list[tuple[Cell, ...]]:
    """A row for every name that occurs, empty where a journey has none of it."""
    names = dict.fromkeys(name for found in each for name in found)
    return [(part, name, *(found.get(name) for found in each)) for name in names]
