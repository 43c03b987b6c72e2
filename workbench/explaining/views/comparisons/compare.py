"""Journeys side by side, as plain data: changes by place, findings that came and went, figures, and sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simulator import Trace
from simulator.analysis.stalls import stalls_of
from workbench.explaining.views.comparisons.changed_options import changes_table
from workbench.explaining.views.comparisons.finding_groups import Found, Kept, kept
from workbench.explaining.views.graphs.kernel_groups import Group, Matching, Run
from workbench.explaining.views.timelines import timeline
from workbench.explaining.views.timelines.gantt import I64
from workbench.ground.basics.table import Cell, Table

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
LAUNCHING = "launching kernels"
"""The row of the cycles that are in no kernel."""


@dataclass(frozen=True)
class Line:
    """A part of the program, and each journey's cycles and bytes for it."""

    what: str
    module: str
    change: str
    cycles: tuple[int, ...]
    bytes: tuple[int, ...]
    kernels: tuple[str, ...]
    launches: tuple[tuple[int, ...], ...] = ()
    """Of each journey, the numbers of its launches; empty for a module and for `LAUNCHING`."""

    @property
    def most(self) -> tuple[int, int]:
        """The largest difference to the first journey, in cycles and in bytes."""
        return max(map(abs, _more(self.cycles))), max(map(abs, _more(self.bytes)))

    def figures(self) -> tuple[int, ...]:
        return (*self.cycles, *_more(self.cycles), *self.bytes, *_more(self.bytes))


def _more(each: Sequence[int]) -> tuple[int, ...]:
    """The differences of the other values to the first."""
    return tuple(amount - each[0] for amount in each[1:])


@dataclass(frozen=True, eq=False)
class Compared:
    """Simulated journeys, compared with the first one."""

    runs: tuple[Run, ...]
    findings_of: Callable[[int], Iterable[Found]]
    """Returns the findings of a journey by its number; they are computed at the first use."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(run.name for run in self.runs)

    @property
    def traces(self) -> tuple[Trace, ...]:
        return tuple(run.trace for run in self.runs)

    @cached_property
    def matching(self) -> Matching:
        return Matching(self.runs)

    @property
    def identical(self) -> bool:
        """True if nothing differs: neither code, nor cycles, nor bytes."""
        return all(group.identical for group in self.matching.groups) and len({run.launching for run in self.runs}) == 1

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The groups, and the cycles in which kernels are launched: the largest differences first."""
        counts = tuple(f"{len(run.launches)} launch{'es' * (len(run.launches) != 1)}" for run in self.runs)
        between = tuple(run.launching for run in self.runs)
        change = "identical" if len(set(between)) == 1 else "differs"
        lines = [*(self._line(group) for group in self.matching.groups)]
        lines.append(Line(LAUNCHING, "", change, between, (0,) * len(between), counts))
        return tuple(sorted(lines, key=lambda line: [-most for most in line.most]))

    def _line(self, group: Group) -> Line:
        cycles, moved = (tuple(getattr(part, what) for part in group.parts) for what in ("cycles", "bytes"))
        kernels = tuple(", ".join(part.kernels) for part in group.parts)
        launches = tuple(part.launches for part in group.parts)
        return Line(group.title, group.module, self.change(group), cycles, moved, kernels, launches)

    def spans(self, line: Line) -> tuple[I64, ...]:
        """The rows of each journey's trace that belong to a line."""
        launches = line.launches or ((),) * len(self.runs)
        return tuple(
            np.flatnonzero(np.isin(run.trace.launch, mine)) for run, mine in zip(self.runs, launches, strict=True)
        )

    def line_of(self, run: int, span: int) -> int:
        """The line that a row of a journey's trace belongs to."""
        launch = int(self.runs[run].trace.launch[span])
        return next(place for place, line in enumerate(self.lines) if line.launches and launch in line.launches[run])

    def change(self, group: Group) -> str:
        """The change of a group, in a word or two."""
        if group.identical:
            return "identical"
        without = [name for name, part in zip(self.names, group.parts, strict=True) if not part.launches]
        if without:
            return f"not in {', '.join(without)}"
        same = len({(part.cycles, part.bytes) for part in group.parts}) == 1
        return "other code, same cycles and bytes" if same else "differs"

    @cached_property
    def modules(self) -> tuple[Line, ...]:
        """A line for every `nn.Module`, with all that is inside of it; the module without a name is the whole program
        without the launch overhead. The largest differences come first."""
        inside: dict[str, list[Group]] = {}
        for group in self.matching.groups:
            path = group.module.split(".") if group.module else []
            for depth in range(len(path) + 1):
                inside.setdefault(".".join(path[:depth]), []).append(group)
        lines = (self._module(module, groups) for module, groups in inside.items())
        return tuple(sorted(lines, key=lambda line: [-most for most in line.most]))

    def _module(self, module: str, groups: Sequence[Group]) -> Line:
        cycles, moved = (
            tuple(sum(getattr(group.parts[at], what) for group in groups) for at in range(len(self.runs)))
            for what in ("cycles", "bytes")
        )
        launches = (sum(len(group.parts[at].launches) for group in groups) for at in range(len(self.runs)))
        changes = {self.change(group) for group in groups}
        counts = tuple(f"{count} launch{'es' * (count != 1)}" for count in launches)
        return Line(module, module, changes.pop() if len(changes) == 1 else "differs", cycles, moved, counts)

    def nodes_table(self) -> Table:
        """One row for the captured nodes that the same kernels compute in every journey, and one for the cycles in
        which kernels are launched: cycles and bytes of the rows add up to those of the journeys."""
        rows = ((line.what, line.module, line.change, *line.figures(), *line.kernels) for line in self.lines)
        kernels = (f"kernels {name}" for name in self.names)
        return Table(("what", "module", "change", *self._columns(), *kernels), tuple(rows))

    def modules_table(self) -> Table:
        """One row an `nn.Module`, with all that is inside of it."""
        rows = ((line.module, line.change, *line.figures(), *line.kernels) for line in self.modules)
        return Table(("module", "change", *self._columns(), *(f"launches {name}" for name in self.names)), tuple(rows))

    def _columns(self) -> list[str]:
        """The names of the columns of `Line.figures`: cycles of each journey and differences to the first, then bytes
        likewise."""
        each = [[f"{what} {name}" for name in self.names] for what in ("cycles", "bytes")]
        more = [[f"delta {column}" for column in columns[1:]] for columns in each]
        return [*each[0], *more[0], *each[1], *more[1]]

    @cached_property
    def findings(self) -> tuple[Kept, ...]:
        """Findings that came and went first, then those with most cycles at stake."""
        return kept([self.findings_of(at) for at in range(len(self.runs))], self.matching)

    def findings_table(self) -> Table:
        """One row a finding: whether it `came`, `went` or `stays`, and the cycles at stake in each journey."""
        rows = tuple(
            (
                each.change,
                each.rule,
                self.title(each.groups),
                *(None if found is None else found.cycles for found in each.each),
                each.reason,
            )
            for each in self.findings
        )
        return Table(("change", "rule", "what", *(f"cycles {name}" for name in self.names), "reason"), rows)

    def title(self, groups: frozenset[int]) -> str:
        """The subject of a finding."""
        meant = [self.matching.groups[number].title for number in sorted(groups)]
        if not meant:
            return "the whole program"
        return meant[0] + (f", and {len(meant) - 1} more" if len(meant) > 1 else "")

    def figures(self) -> Table:
        """One row a figure, one column a journey: the machine and its replaced figures, then figures of the run, cycles
        by kernel and idle unit cycles by cause."""
        stats = [timeline.stats(trace) for trace in self.traces]
        figures: list[tuple[Cell, ...]] = [("figure", name, *(each[name] for each in stats)) for name in _FIGURES]
        kernels = [timeline.kernel_cycles(trace) for trace in self.traces]
        causes = [idle_by_cause(trace) for trace in self.traces]
        machines = [trace.machine for trace in self.traces]
        named = ("machine", "", *(machine.name for machine in machines))
        replaced = dict.fromkeys(figure for machine in machines for figure in machine.overrides)
        told_apart = [("machine", figure, *(machine.figures()[figure] for machine in machines)) for figure in replaced]
        rows = [named, *told_apart, *figures, *_merged("kernel cycles", kernels), *_merged("idle", causes)]
        return Table(("part", "what", *self.names), tuple(rows))

    def stages(self) -> Table:
        """One row a figure of a stage, one column a journey."""
        counts: dict[tuple[str, str], list[Cell]] = {
            ("capture", "ATen calls"): [len(run.nodes) for run in self.runs],
            ("lower", "kernels"): [len(run.lowered.kernels) for run in self.runs],
            ("schedule", "programs"): [len(run.scheduled.kernels) for run in self.runs],
            ("schedule", "launches"): [len(run.launches) for run in self.runs],
            ("program", "instructions"): [
                sum(len(each.program) for each in run.scheduled.kernels) for run in self.runs
            ],
            ("timeline", "instructions run"): [len(run.trace) for run in self.runs],
            ("timeline", "cycles"): [run.trace.makespan for run in self.runs],
        }
        return Table(("stage", "figure", *self.names), tuple((*key, *each) for key, each in counts.items()))

    def changes(self) -> Table:
        """One row a setting that differs between the journeys."""
        return changes_table(self.matching)

    def ratios(self) -> Table:
        """Cycles and time of each journey, and both as multiples of the first one's."""
        first = self.traces[0]
        rows = tuple(
            (
                name,
                trace.machine.label,
                trace.makespan,
                trace.machine.microseconds(trace.makespan),
                _ratio(trace.makespan, first.makespan),
                _ratio(trace.machine.microseconds(trace.makespan), first.machine.microseconds(first.makespan)),
            )
            for name, trace in zip(self.names, self.traces, strict=True)
        )
        return Table(("journey", "machine", "cycles", "time_us", "cycles_ratio", "time_ratio"), rows)

    def sentences(self, *, totals: bool = True) -> list[str]:
        """The tables in words; without `totals`, the cycles of each journey are left out."""
        shared = self._shared()
        lines = [*shared, *self._clocks()]
        if self.identical and not shared:
            return [*lines, "identical: the same code in every kernel, the same cycles, the same bytes"]
        first = self.runs[0]
        for run in self.runs[1:] if totals else ():
            more = run.trace.makespan - first.trace.makespan
            than = f"{abs(more):,} {'more' if more > 0 else 'fewer'} than" if more else "as many as"
            lines.append(f"{run.name} takes {run.trace.makespan:,} cycles, {than} {first.name}")
        lines += self._on_host()
        same = sum(line.change == "identical" for line in self.lines)
        differ, count = len(self.lines) - same, len(self.lines)
        of = f"{differ} of {count} parts differ{'s' * (differ == 1)}, {same} {'is' if same == 1 else 'are'} identical"
        lines.append(of if same else f"all {count} parts differ")
        return lines

    def _on_host(self) -> list[str]:
        """Says how many cycles each journey spends on the host, if they differ: these follow from the machine's host
        figures, not from a measurement."""
        cycles = [sum(timeline.host_cycles(trace)) for trace in self.traces]
        if len(set(cycles)) == 1:
            return []
        return [
            f"{run.name} spends {mine:,} of its {run.trace.makespan:,} cycles in steps on the host, a time that rests "
            f"on the machine's host figures ({'; '.join(dict.fromkeys(step.what for step in run.scheduled.hosts))})"
            for run, mine in zip(self.runs, cycles, strict=True)
            if mine
        ]

    def _shared(self) -> list[str]:
        """Says how many calls the journeys share, if not all."""
        shared, counts = self.matching.shared, [len(run.nodes) for run in self.runs]
        if all(count == shared for count in counts):
            return []
        if not shared:
            return ["the programs differ: they share no ATen call, and only the whole can be compared"]
        of = ", ".join(f"{count} of {name}" for name, count in zip(self.names, counts, strict=True))
        return [f"the programs differ: they share {shared} ATen call{'s' * (shared > 1)} ({of})"]

    def _clocks(self) -> list[str]:
        clocks = dict.fromkeys(trace.machine.clock_mhz for trace in self.traces)
        if len(clocks) == 1:
            return []
        return [f"clocks differ ({', '.join(f'{clock:g}' for clock in clocks)} MHz): a cycle is not the same time"]


def _ratio(value: float, first: float) -> float:
    """`value` as a multiple of `first`: 1 if both are zero, infinite if only `first` is."""
    return value / first if first else 1.0 if not value else math.inf


def idle_by_cause(trace: Trace) -> dict[str, int]:
    """Idle cycles of all units together, by cause, without the units that do no work."""
    found: dict[str, int] = {}
    for row in stalls_of(trace):
        for name, cycles in row.items():
            if row["busy"] and name not in ("unit", "busy", "total") and cycles:
                found[name] = found.get(name, 0) + int(cycles)
    return found


def _merged(part: str, each: Sequence[dict[str, int]]) -> list[tuple[Cell, ...]]:
    """A row for every name that occurs; a journey without the name has an empty cell."""
    names = dict.fromkeys(name for found in each for name in found)
    return [(part, name, *(found.get(name) for found in each)) for name in names]
