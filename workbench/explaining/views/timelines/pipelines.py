"""A kernel's loop over tiles as it ran: iterations one below the other, each with its loads, its work, its stores.

A row is a stretch of one core's program with one iteration of the loops around it. Instructions outside of the
innermost loop, before or after it, are a row of their own. A transfer is hidden in the cycles in which an array, the
vector or the scalar unit of its core is busy with any iteration of the same launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Final

import numpy as np

from simulator import Cause, Trace
from simulator.did_you_mean import did_you_mean
from simulator.records.spans import HostCall
from simulator.tileprogram.program import I64, Opcode, Space, TileProgram
from simulator.units.unit_table import DOES
from workbench.explaining.views.timelines.columns import NONE, Columns, packed
from workbench.explaining.views.timelines.gantt import together
from workbench.explaining.views.timelines.timeline_questions import ANOTHER, REASONS, blockers, reason_text
from workbench.ground.basics.table import Cell, Table
from workbench.ground.errors import BadOption
from workbench.ir import Launches

STAGES: Final = ("load", "compute", "store", "copy", "barrier")
ROW_COLUMNS = (
    "row", "core", "loops", "iteration", "begin", "end", "load", "compute", "store", "moving", "hidden",
    "hidden_share", "slots", "during",
)  # fmt: skip
SPAN_COLUMNS = (
    "row", "iteration", "span", "stage", "kind", "unit", "slots", "begin", "end", "cycles", "waited", "cause",
    "waited_for", "reason", "hidden", "during",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One iteration."""

    core: int
    loops: tuple[str, ...]
    at: tuple[int, ...]
    spans: tuple[int, ...]
    """Rows of the trace, in program order."""

    @property
    def label(self) -> str:
        return "·".join(map(str, self.at)) or "outside"


@dataclass(frozen=True, eq=False)
class Pipeline:
    """One launch of a kernel, row by row."""

    trace: Trace
    program: TileProgram
    launch: int
    kernel: str
    loops: tuple[str, ...]
    """The loops of the row with the most loops, outermost first."""
    rows: tuple[Row, ...]

    @property
    def known_loops(self) -> tuple[str, ...]:
        """All loops of the kernel, by which rows can be counted."""
        return _known_loops(self.program)

    @cached_property
    def busy(self) -> dict[int, I64]:
        """Core -> the stretches in which it computes, merged: a row of begins and a row of ends."""
        return {core: _merged(self.trace, self._computing(core)) for core in {row.core for row in self.rows}}

    @cached_property
    def _busy_before(self) -> dict[int, I64]:
        """Core -> its busy cycles before each of its stretches, and in all."""
        return {core: np.concatenate([[0], np.cumsum(end - begin)]) for core, (begin, end) in self.busy.items()}

    @cached_property
    def _lanes(self) -> dict[int, list[I64]]:
        """Core -> its spans that compute, unit by unit, in the order of time."""
        found = dict[int, list[I64]]()
        for core in self.busy:
            spans = self._computing(core)
            spans = spans[np.lexsort((self.trace.start[spans], self.trace.unit[spans]))]
            found[core] = np.split(spans, np.flatnonzero(np.diff(self.trace.unit[spans])) + 1) if len(spans) else []
        return found

    @cached_property
    def row_of(self) -> dict[int, int]:
        """Span -> the number of its row."""
        return {span: number for number, row in enumerate(self.rows) for span in row.spans}

    def _computing(self, core: int) -> I64:
        spans = [span for row in self.rows if row.core == core for span in row.spans]
        return np.array([span for span in spans if self.stage(span) == "compute"], np.int64)

    def stage(self, span: int) -> str:
        return DOES[int(self.trace.kind[span])].stage

    def of_stage(self, row: Row, *stages: str) -> I64:
        return np.array([span for span in row.spans if self.stage(span) in stages], np.int64)

    def moving(self, spans: I64) -> int:
        """Cycles in which at least one of the spans runs."""
        begin, end = _merged(self.trace, spans)
        return int((end - begin).sum())

    def hidden(self, core: int, spans: I64) -> int:
        """Cycles in which at least one of the spans runs and the core computes."""
        begin, end = _merged(self.trace, spans)
        return int((self._computed(core, end) - self._computed(core, begin)).sum())

    def _computed(self, core: int, until: I64) -> I64:
        """Cycles in which a core has computed before each moment."""
        (begin, end), before = self.busy[core], self._busy_before[core]
        place = np.searchsorted(begin, until, side="right")
        if not len(begin):
            return np.zeros_like(until)
        over = np.where(place > 0, np.maximum(end[np.maximum(place - 1, 0)] - until, 0), 0)
        return before[place] - over

    def during(self, core: int, span: int) -> tuple[int, ...]:
        """The rows with computing spans that overlap the time of a span."""
        start, end = int(self.trace.start[span]), int(self.trace.end[span])
        found = set[int]()
        for lane in self._lanes[core]:
            first = int(np.searchsorted(self.trace.end[lane], start, side="right"))
            last = int(np.searchsorted(self.trace.start[lane], end, side="left"))
            found.update(self.row_of[each] for each in lane[first:last].tolist())
        return tuple(sorted(found))

    @cached_property
    def whole(self) -> tuple[int, int]:
        """Cycles in which anything moves from or to DRAM, summed over the cores, and the hidden ones among these."""
        sums = np.zeros(2, np.int64)
        for core in self.busy:
            mine = [self.of_stage(row, "load", "store") for row in self.rows if row.core == core]
            spans = np.concatenate([np.zeros(0, np.int64), *mine])
            sums += self.moving(spans), self.hidden(core, spans)
        return int(sums[0]), int(sums[1])

    @property
    def begin(self) -> int:
        return int(self.trace.begins[self.launch])

    @property
    def end(self) -> int:
        return max((int(self.trace.done[list(row.spans)].max()) for row in self.rows), default=self.begin)

    def slots(self, span: int) -> tuple[str, ...]:
        """Slots of buffers that an instruction reads or writes: `buf1[0]`."""
        return self._slots[int(self.trace.instr[span])]

    @cached_property
    def _slots(self) -> list[tuple[str, ...]]:
        """The slots of each instruction."""
        program, names = self.program, [buffer.name for buffer in self.program.buffers]
        inside: list[bool] = (program.space == Space.SCRATCHPAD).tolist()
        targets: list[int] = program.target.tolist()
        numbers: list[int] = program.slot.tolist()
        starts: list[int] = program.operand_start.tolist()
        slots = [
            f"{names[target]}[{number}]" if here else ""
            for here, target, number in zip(inside, targets, numbers, strict=True)
        ]
        return [tuple(dict.fromkeys(filter(None, slots[first:last]))) for first, last in pairwise(starts)]


def pipeline_of(trace: Trace, launches: Launches, kernel: str | int, loop: str | None) -> Pipeline:
    """The pipeline of a launch by its number, or of the first launch of a kernel by its name, with a row for each
    iteration of the loop."""
    number = _launch(launches, kernel)
    launched = trace.launches[number]
    if isinstance(launched, HostCall):
        raise BadOption(f"pipeline({kernel!r}): it runs on the host, where there are no tiles")
    program, first = launched.program, trace.rows_of(number).start
    known = _known_loops(program)
    if loop is not None and loop not in known:
        raise BadOption(
            f"pipeline({kernel!r}, loop={loop!r}): there is no such loop{did_you_mean(loop, known)}; "
            f"the kernel has {', '.join(known) or 'none'}"
        )
    rows = tuple(_rows(program, loop, first))
    loops = max((row.loops for row in rows), key=len, default=())
    return Pipeline(trace, program, number, launches.launches[number].name, loops, rows)


def _known_loops(program: TileProgram) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for op in program.ops for name in op.loops))


def of_tiles(trace: Trace) -> list[int]:
    """The launches that run tiles, as steps on the host do not."""
    return [
        number for number, each in enumerate(trace.launches) if not isinstance(each, HostCall) and len(each.program)
    ]


def _launch(launches: Launches, kernel: str | int) -> int:
    names = [launch.name for launch in launches.launches]
    if isinstance(kernel, int):
        if not 0 <= kernel < len(names):
            raise BadOption(f"pipeline({kernel}): launches are numbered from 0 to {len(names) - 1}")
        return kernel
    shared = [launch.kernel for launch in launches.launches]
    if kernel not in names and kernel not in shared:
        what = f"there is no such kernel{did_you_mean(kernel, names)}"
        raise BadOption(f"pipeline({kernel!r}): {what}. The kernels are {', '.join(dict.fromkeys(names))}")
    return names.index(kernel) if kernel in names else shared.index(kernel)


def _rows(program: TileProgram, loop: str | None, first: int) -> Iterator[Row]:
    """Runs of instructions of one core with one iteration, in the order in which they begin."""
    found = list[tuple[int, Row]]()
    depths = [_depth(op.loops, loop) for op in program.ops]

    def key(number: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
        op = int(program.op[number])
        depth = depths[op]
        return program.ops[op].loops[:depth], tuple(program.iteration[number, :depth].tolist())

    for core in np.unique(program.core).tolist():
        mine = np.flatnonzero(program.core == core).tolist()
        for (loops, at), run in groupby(mine, key):
            numbers = list(run)
            found.append((numbers[0], Row(core, loops, at, tuple(first + number for number in numbers))))
    return (row for _, row in sorted(found, key=lambda each: each[0]))


def _depth(loops: Sequence[str], loop: str | None) -> int:
    return loops.index(loop) + 1 if loop in loops else len(loops)


def _merged(trace: Trace, spans: I64) -> I64:
    """Stretches of time that these spans cover: a row of begins, a row of ends."""
    spans = spans[trace.end[spans] > trace.start[spans]]
    return np.array(together(trace.start[spans], trace.end[spans]))


def rows_table(view: Pipeline) -> Table:
    """One row an iteration."""
    cells = list[tuple[Cell, ...]]()
    for number, row in enumerate(view.rows):
        spans, moved = np.array(row.spans), view.of_stage(row, "load", "store")
        moving, hidden = view.moving(moved), view.hidden(row.core, moved)
        cycles = [view.moving(view.of_stage(row, stage)) for stage in STAGES[:3]]
        slots = tuple(dict.fromkeys(slot for span in row.spans for slot in view.slots(span)))
        during = tuple(sorted({each for span in moved.tolist() for each in view.during(row.core, span)}))
        begin, end = int(view.trace.start[spans].min()), int(view.trace.end[spans].max())
        part = hidden / moving if moving else None
        cells.append((number, row.core, row.loops, row.at, begin, end, *cycles, moving, hidden, part, slots, during))
    return Table(ROW_COLUMNS, tuple(cells))


def spans_table(view: Pipeline) -> Table:
    """One row a span, iteration by iteration."""
    trace, waited_for = view.trace, blockers(view.trace)
    cells = list[tuple[Cell, ...]]()
    for number, row in enumerate(view.rows):
        for span in row.spans:
            stage, start, end = view.stage(span), int(trace.start[span]), int(trace.end[span])
            cause, blocker = Cause(trace.cause[span]).label, int(waited_for[span])
            moves, one = stage in ("load", "store"), np.array([span])
            cells.append((
                number, row.at, span, stage, Opcode(trace.kind[span]).name, trace.unit_names[int(trace.unit[span])],
                view.slots(span), start, end, end - start, start - int(trace.issue[span]), cause, blocker,
                reason_text(trace, cause, span, blocker), view.hidden(row.core, one) if moves else 0,
                view.during(row.core, span) if moves else (),
            ))  # fmt: skip
    return Table(SPAN_COLUMNS, tuple(cells))


def title(view: Pipeline) -> str:
    over = f" over {' · '.join(view.loops)}" if view.loops else ""
    rows = len(view.rows)
    return f"{view.kernel}: {rows:,} iteration{'s' * (rows != 1)}{over}"


def sum_text(view: Pipeline) -> str:
    """Says in how many cycles anything moves, and how many of these are hidden."""
    moving, hidden = view.whole
    if not moving:
        return "nothing moves from or to DRAM"
    cores = len(view.busy)
    those = f"in {moving:,} of them" if cores == 1 else f"in {moving:,}, those of {cores} cores added up"
    return (
        f"{view.end - view.begin:,} cycles; something moves from or to DRAM {those}, of which {hidden:,} "
        f"({hidden / moving:.0%}) are hidden behind work"
    )


def pipeline_text(view: Pipeline) -> str:
    shown = ("iteration", "begin", "end", "load", "compute", "store", "hidden", "slots", "during")
    return f"{title(view)}\n{sum_text(view)}\n{rows_table(view).pick(*shown).text()}"


def pipeline_columns(view: Pipeline) -> Columns:
    """The pipeline as columns for a picture that is drawn elsewhere: spans row by row; times are cycles since the
    launch began."""
    trace, begin, table = view.trace, view.begin, spans_table(view)
    column = {name: [row[place] for row in table.rows] for place, name in enumerate(table.columns)}
    spans = np.array(column["span"], np.int64)
    slots = [f"{buffer.name}[{slot}]" for buffer in view.program.buffers for slot in range(buffer.slots)]
    slot_of = {slot: number for number, slot in enumerate(slots)}
    touched = [[slot_of[slot] for slot in view.slots(span)] for span in spans.tolist()]
    rows = rows_table(view)
    cores = sorted(view.busy)
    header = {
        "title": title(view), "sum": sum_text(view), "kernel": view.kernel, "launch": view.launch, "begin": begin,
        "length": view.end - begin, "loops": list(view.loops), "known_loops": list(view.known_loops),
        "cores": cores, "slots": slots,
        "units": list(trace.unit_names), "kinds": [each.name for each in Opcode], "stages": list(STAGES),
        "causes": [cause.label for cause in Cause], "reasons": dict(REASONS), "another": ANOTHER,
    }  # fmt: skip
    waited_for = blockers(trace)[spans]
    edges = np.cumsum([0, *(len(view.busy[core][0]) for core in cores)])
    busy = np.concatenate([np.zeros((2, 0), np.int64), *(view.busy[core] for core in cores)], axis=1) - begin
    columns = {
        "first": np.cumsum([0, *(len(row.spans) for row in view.rows)]),
        "core": np.array([cores.index(row.core) for row in view.rows]),
        "moving": np.array([row[ROW_COLUMNS.index("moving")] for row in rows.rows]),
        "row_hidden": np.array([row[ROW_COLUMNS.index("hidden")] for row in rows.rows]),
        "span": spans,
        "stage": np.array([STAGES.index(str(stage)) for stage in column["stage"]]),
        "kind": trace.kind[spans].astype(np.int64),
        "unit": trace.unit[spans].astype(np.int64),
        "start": trace.start[spans] - begin,
        "end": trace.end[spans] - begin,
        "issue": trace.issue[spans] - begin,
        "cause": trace.cause[spans].astype(np.int64),
        "waited_for": np.where(waited_for < 0, NONE, waited_for),
        "waited_kind": trace.kind[waited_for].astype(np.int64),
        "waited_unit": trace.unit[waited_for].astype(np.int64),
        "hidden": np.array(column["hidden"]),
        "busy_first": edges,
        "busy_begin": busy[0],
        "busy_end": busy[1],
        **_lists("slot", touched),
        **_lists("during", [list(each) for each in column["during"]]),  # type: ignore[arg-type]
        **_lists("at", [list(row.at) for row in view.rows]),
    }
    return packed(header, columns)


def _lists(name: str, lists: Sequence[Sequence[int]]) -> dict[str, I64]:
    """Lists of numbers as two columns: the place at which each list begins, and the numbers of all lists."""
    starts = np.cumsum([0, *map(len, lists)])
    flat = [number for each in lists for number in each]
    return {f"{name}_first": starts, name: np.array(flat, np.int64)}
