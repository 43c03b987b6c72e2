"""A simulated trace as tables, text and geometry, with everything named as the user knows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import numpy.typing as npt

from simulator import Cause, HostCall, Trace
from simulator.analysis.contention import INEFFICIENT, MEMORY_PEAK, Waited, waited
from simulator.analysis.critical_path import critical_path_of, waterfall_of
from simulator.analysis.energy import FIGURES as ENERGY_FIGURES
from simulator.analysis.energy import energy_of
from simulator.analysis.stalls import bandwidth_of, channels_of, links_of, stalls_of, unanswered
from simulator.optional.zero_tiles.skipped_tiles import skipped_of
from simulator.records.spans import CHANNEL_COUNTERS, CHANNEL_CYCLES, TOTALS, Wait
from simulator.tileprogram.program import Opcode
from simulator.units.unit_table import UNITS, unit_named
from workbench.explaining.views.graphs.titles import user_names
from workbench.explaining.views.timelines.gantt import Gantt, Spans, gantt
from workbench.ground.basics.table import Cell, Table
from workbench.ir import KernelGraph, Launches

EVENT_COLUMNS = (
    "launch", "kernel", "instr", "core", "unit", "kind", "start", "end", "bytes", "cause", "blocker", "origins", "via",
    "slack", "moved", "run", "stretch", "peak_share",
)  # fmt: skip
PATH_COLUMNS = (
    "launch", "kernel", "span", "instr", "unit", "kind", "what", "begin", "end", "cycles", "cause", "blocker",
)  # fmt: skip
_Launched = list[tuple[str, int, int]]
_Numbers = npt.NDArray[np.int64]
_GROUPS = tuple(unit.name for unit in UNITS)


def event_columns(trace: Trace, launches: Launches) -> dict[str, Sequence[Cell]]:
    """Every span, column by column; `origins` are the captured nodes that a span works for."""
    from simulator.analysis.memory_use import memory_use_of  # only here: these load the compiler, which most views
    from simulator.analysis.slack import slack_of  # of a trace do not wait for

    columns: dict[str, Sequence[Cell]] = {**trace.columns()}
    columns["origins"] = origins_of_spans(trace, launches)
    use = memory_use_of(trace)
    columns |= {"slack": slack_of(trace).tolist(), "moved": use.requested.tolist(), "run": use.run.tolist()}
    columns |= {"stretch": use.stretch.tolist(), "peak_share": use.peak_share.tolist()}
    return {name: columns[name] for name in EVENT_COLUMNS}


def origins_of_spans(trace: Trace, launches: Launches) -> list[tuple[str, ...]]:
    """The captured nodes behind each span: each named once, in the order of their ids."""
    seen: dict[tuple[int, tuple[int, ...]], tuple[str, ...]] = {}
    out: list[tuple[str, ...]] = []
    starts: list[int] = trace.origin_start.tolist()
    ids: list[int] = trace.origin.tolist()
    owners: list[int] = trace.launch.tolist()
    for span, launch in enumerate(owners):
        key = launch, tuple(ids[starts[span] : starts[span + 1]])
        if key not in seen:
            names = launches.launches[launch].origins
            seen[key] = tuple(dict.fromkeys(names[index] for index in key[1]))
        out.append(seen[key])
    return out


def origin_sets(trace: Trace, launches: Launches) -> tuple[list[tuple[str, ...]], _Numbers]:
    """The different sets of captured nodes that spans work for, and the number of each span's set."""
    origins = origins_of_spans(trace, launches)
    numbers = {names: number for number, names in enumerate(dict.fromkeys(origins))}
    return [*numbers], np.array([numbers[names] for names in origins], np.int64)


def host_cycles(trace: Trace) -> list[int]:
    """The cycles of each step on the host."""
    return [
        end - begin
        for (_, begin, end), launched in zip(trace.kernel_spans, trace.launches, strict=True)
        if isinstance(launched, HostCall)
    ]


def kernel_cycles(trace: Trace) -> dict[str, int]:
    """Cycles from begin to end, over all launches of each kernel."""
    cycles: dict[str, int] = {}
    for kernel, begin, end in trace.kernel_spans:
        cycles[kernel] = cycles.get(kernel, 0) + end - begin
    return cycles


def sum_text(trace: Trace) -> str:
    """Adds the cycles of the kernels, and those of launches, which are in none of them, up to the makespan."""
    inside = sum(kernel_cycles(trace).values())
    return f"kernels {inside:,} + launches {trace.makespan - inside:,} = {trace.makespan:,} cycles"


def by_kernel(trace: Trace) -> Table:
    """One row a kernel: launches, cycles, DRAM bytes (with several chiplets also those on another chiplet than the
    requesting one), and the busy cycles of each class of unit."""
    cycles = kernel_cycles(trace)
    kernel_of_launch = np.array([list(cycles).index(kernel) for kernel in trace.kernels], np.int64)
    of_span = kernel_of_launch[trace.launch] if len(trace) else np.zeros(0, np.int64)
    names = ["dram_read_bytes", "dram_write_bytes", *["dram_remote_bytes"] * (trace.machine.chiplet.count > 1)]
    bytes = trace.totals[:, [TOTALS.index(name) for name in names]]
    rows: list[tuple[Cell, ...]] = []
    for index, (kernel, taken) in enumerate(cycles.items()):
        launches, busy = kernel_of_launch == index, busy_by_group(trace, of_span == index)
        moved = bytes[launches].sum(0).tolist()
        rows.append((kernel, int(launches.sum()), taken, *moved, *(busy.get(group, 0) for group in _GROUPS)))
    busy_columns = tuple(f"{group.lower()}_busy" for group in _GROUPS)
    byte_columns = ("bytes_read", "bytes_written", "bytes_remote")[: len(names)]
    return Table(("kernel", "launches", "cycles", *byte_columns, *busy_columns), tuple(rows))


def transfers(trace: Trace) -> Table:
    """One row a kernel and kind of transfer from or to DRAM.

    `bytes` are the needed bytes, `moved` those that the memory moves in whole requests; `run` and `stretch` are means
    over all runs and stretches (only LOADs and STOREs have stretches); `peak_share` is the needed bytes, divided by the
    bytes that the memory could move in the time of these transfers.
    """
    from simulator.analysis.memory_use import memory_use_of  # only here, as above

    use = memory_use_of(trace)
    kernels = list(dict.fromkeys(trace.kernels))
    numbers = np.array([kernels.index(kernel) for kernel in trace.kernels], np.int64)
    moving = np.flatnonzero(use.requested)
    key = numbers[trace.launch[moving]] * len(Opcode) + trace.kind[moving]
    rows = list[tuple[Cell, ...]]()
    for each in cast("list[int]", np.unique(key).tolist()):
        mine = moving[key == each]
        needed, kernel, kind = use.asked[mine], kernels[each // len(Opcode)], Opcode(each % len(Opcode)).name
        bytes = int(needed.sum()), int(use.requested[mine].sum())
        means = _mean(needed, use.run[mine]), _mean(needed, use.stretch[mine])
        rows.append((kernel, kind, len(mine), *bytes, *means, int(use.cycles[mine].sum()), use.peak_share_of(mine)))
    columns = ("kernel", "kind", "transfers", "bytes", "moved", "run", "stretch", "cycles", "peak_share")
    return Table(columns, tuple(rows), "" if rows else "nothing is moved from or to DRAM")


def _mean(needed: _Numbers, each: _Numbers) -> float:
    """The mean bytes of a piece, if the needed bytes of each transfer come in pieces of `each` bytes; 0 if some have no
    pieces."""
    return float(needed.sum() / np.sum(needed / each)) if each.all() else 0.0


def busy_by_group(trace: Trace, mine: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> dict[str, int]:
    """Cycles in which units are busy with these spans, by class of unit."""
    lengths = np.bincount(trace.unit[mine], trace.busy_cycles[mine], minlength=len(trace.unit_names))
    busy: dict[str, int] = {}
    for name, cycles in zip(trace.unit_names, lengths.tolist(), strict=True):
        busy[group_of(name)] = busy.get(group_of(name), 0) + int(cycles)
    return busy


def by_op(trace: Trace, launches: Launches, lowered: KernelGraph) -> Table:
    """One row a captured node: its part of the busy unit cycles and of the bytes, and the number of spans that work for
    it.

    The cycles and bytes of a span that works for several nodes, such as fused ops, are divided among the nodes as
    equally as whole numbers allow; those of spans without a node are in the row without a name. So cycles and bytes add
    up to the totals of the trace; a span that nodes share counts for each of them.
    """
    shares: dict[str, list[int]] = {}
    lengths, sizes = trace.busy_cycles.tolist(), trace.bytes.tolist()
    for names, length, size in zip(origins_of_spans(trace, launches), lengths, sizes, strict=True):
        owners = names or ("",)
        for place, name in enumerate(owners):
            share = shares.setdefault(name, [0, 0, 0])
            for column, amount in enumerate((length, size)):
                share[column] += (amount + place) // len(owners)
            share[2] += 1
    rows: list[tuple[Cell, ...]] = [
        (node.name, node.op, node.origin.file, node.origin.line, *shares[node.name])
        for node in lowered.captured.nodes
        if node.name in shares
    ]
    if "" in shares:
        rows.append(("", "", None, None, *shares[""]))
    return Table(("node", "op", "file", "line", "busy_cycles", "bytes", "spans"), tuple(rows))


def stalls(trace: Trace) -> Table:
    """One row a unit: busy cycles and idle cycles by cause; each row adds up to the makespan."""
    rows = stalls_of(trace)
    columns = tuple(dict.fromkeys(column for row in rows for column in row))
    return Table(columns, tuple(tuple(row.get(column, 0) for column in columns) for row in rows))


def _no_channels(trace: Trace) -> str:
    simple = "has a simple memory, a latency and one bus, of which there are no channels"
    return "" if trace.machine.dram.kind == "banked" else _missing(trace, simple, "memory='banked'")


def _missing(trace: Trace, what: str, figure: str) -> str:
    """Says what the machine lacks for a table, and which figure adds it."""
    return f"{trace.machine.label} {what}; one that has: j.with_(machine=j.machine.with_({figure}))"


def memory(trace: Trace) -> Table:
    """One row a channel of a banked memory: requests, row hits, misses and conflicts, ACTs, refreshes, bytes, cycles by
    state."""
    columns = ("channel", *CHANNEL_COUNTERS, "bytes", *CHANNEL_CYCLES)
    rows = tuple(tuple(row[column] for column in columns) for row in channels_of(trace))
    return Table(columns, rows, _no_channels(trace))


def bandwidth(trace: Trace) -> Table:
    """One row a channel of a banked memory and piece of time: begin, end, bytes moved, bytes a cycle."""
    columns = ("channel", "begin", "end", "bytes", "bytes_per_cycle")
    rows = (tuple(row.values()) for row in bandwidth_of(trace))
    return Table(columns, tuple((*row, row[3] / max(1, row[2] - row[1])) for row in rows), _no_channels(trace))


def links(trace: Trace) -> Table:
    """One row a link of the interconnect: bytes, the cycles in which it was occupied, and their share of the
    makespan."""
    rows, why = tuple(tuple(row.values()) for row in links_of(trace)), ""
    if not trace.machine.has_links:
        why = _missing(trace, "has a simple interconnect, a latency without links", "interconnect='crossbar'")
    return Table(("from", "to", "bytes", "cycles", "share"), rows, why)


def critical_path(trace: Trace) -> Table:
    """One row a piece of the makespan: its activity, and its instruction's wait before."""
    rows: list[tuple[Cell, ...]] = []
    for step in critical_path_of(trace):
        span, where, cause, blocker = step.span, (-1, "", ""), "", -1
        if span >= 0:
            issued = step.what == Cause.ISSUE.label
            causes, blockers = (trace.issue_cause, trace.issue_blocker) if issued else (trace.cause, trace.blocker)
            cause, blocker = Cause(causes[span]).label, int(blockers[span])
            where = int(trace.instr[span]), trace.unit_names[int(trace.unit[span])], Opcode(trace.kind[span]).name
        did = step.what, step.begin, step.end, step.cycles
        rows.append((step.launch, trace.kernels[step.launch], span, *where, *did, cause, blocker))
    return Table(PATH_COLUMNS, tuple(rows))


def energy(trace: Trace) -> Table:
    """One row a kernel, unit and kind: their number, the picojoules of each, and the picojoules of all.

    A figure of the machine that nobody published is `assumed`, one that was chosen to meet a measurement `fitted`.
    """
    rows = tuple(
        (each.kernel, each.unit, each.kind, each.count, each.pj_each, each.pj, *_guessed(trace, (each.unit, each.kind)))
        for each in energy_of(trace)
    )
    return Table(("kernel", "unit", "kind", "count", "pj_each", "pj", "assumed", "fitted"), rows)


def _guessed(trace: Trace, key: tuple[str, str]) -> tuple[bool, bool]:
    """Two bools about the figure for an activity of a unit: it is assumed; it is fitted."""
    name = ENERGY_FIGURES[key]
    return name in trace.machine.assumed, name in dict(trace.machine.fitted)


def energy_by_unit(trace: Trace) -> Table:
    """One row a unit and kind, over all kernels, and the share of each in the whole energy."""
    sums: dict[tuple[str, str], list[float]] = {}
    for spent in energy_of(trace):
        row = sums.setdefault((spent.unit, spent.kind), [0.0, 0.0])
        row[0], row[1] = row[0] + spent.count, row[1] + spent.pj
    whole = sum(pj for _, pj in sums.values()) or 1.0
    rows = ((*key, round(count), pj, pj / whole, *_guessed(trace, key)) for key, (count, pj) in sums.items())
    return Table(("unit", "kind", "count", "pj", "share", "assumed", "fitted"), tuple(rows))


def skipped(trace: Trace, launches: Launches, lowered: KernelGraph) -> Table:
    """One row a kernel and tensor that it loads, by tiles, and one for its products: their number, and the number of
    skipped ones."""
    sums: dict[tuple[str, str], list[int]] = {}
    known: dict[tuple[str, str], bool] = {}
    names = user_names(lowered)
    for row in skipped_of(trace):
        launch, argument = launches.launches[int(row["launch"])], int(row["argument"])
        key = launch.name, names[launch.arguments[argument]] if argument >= 0 else ""
        known[key] = known.get(key, False) or bool(row["known"])
        counts = sums.setdefault(key, [0, 0, 0, 0])
        for place, name in enumerate(("count", "skipped", "bytes_skipped", "macs_skipped")):
            counts[place] += int(row[name])
    rows = tuple(
        (kernel, tensor or None, "tile" if tensor else "product", known[kernel, tensor], *counts)
        for (kernel, tensor), counts in sums.items()
    )
    columns = ("kernel", "tensor", "kind", "known", "count", "skipped", "bytes_skipped", "macs_skipped")
    return Table(columns, rows)


def on_critical_path(trace: Trace) -> tuple[int, ...]:
    """The spans on the critical path, without those that only have a wait for issue on it."""
    issued = Cause.ISSUE.label
    return tuple(sorted({step.span for step in critical_path_of(trace) if step.span >= 0 and step.what != issued}))


def waterfall(trace: Trace) -> Table:
    """The makespan, divided along the critical path; the cycles add up to it."""
    return Table(("what", "cycles"), tuple(waterfall_of(trace)))


def stats(trace: Trace) -> dict[str, int | float]:
    """The figures of a run that fit on a card."""
    machine, cycles = trace.machine, trace.makespan
    busy, units = busy_by_group(trace, np.ones(len(trace), bool)), Counter(map(group_of, trace.unit_names))
    counters = trace.counters
    moved = counters["dram_read_bytes"] + counters["dram_write_bytes"]
    whole = max(cycles, 1)
    return {
        "cycles": cycles,
        "time_us": machine.microseconds(cycles),
        "launches": len(trace.kernels),
        "instructions": len(trace),
        **counters,
        "dram_gb_per_s": moved / whole * machine.clock_mhz / 1e3,
        "dram_share_of_peak": float(moved / whole / machine.dram_bytes_per_cycle),
        "macs_share_of_peak": float(counters["macs"] / whole / machine.peak_macs_per_cycle),
        **{f"{group.lower()}_busy_share": busy[group] / whole / count for group, count in units.items()},
    }


def group_of(unit: str) -> str:
    """The kind of a unit by its name: `dma0` is a DMA queue, `mxu1` a systolic array, `vpu` the vector unit,
    `scalar` the scalar unit. With several cores, each has units of its own: `core1.dma0`."""
    return unit_named(unit).name


def gantt_of(trace: Trace, launches: Sequence[int] | None = None) -> Gantt:
    """The geometry of the trace's timeline; with `launches`, of these alone, as if no others were between them."""
    found, causes = waited(trace), [cause.label for cause in Cause] + [MEMORY_PEAK, INEFFICIENT]
    columns = _waits(trace, found)
    spans = Spans(
        lane=trace.unit.astype(np.int64),
        start=trace.start,
        end=trace.end,
        kind=trace.kind.astype(np.int64),
        cause=trace.cause.astype(np.int64),
        launch=trace.launch.astype(np.int64),
        waits=np.stack([*columns.values()], axis=1) if columns else np.zeros((len(trace), 0), np.int64),
        idle=found.cause,
        tails=(
            (causes.index(MEMORY_PEAK), found.before - found.wasted_before),
            (causes.index(INEFFICIENT), found.wasted_before),
        ),
    )
    of_all, makespan, rows = trace.kernel_spans, trace.makespan, np.arange(len(trace))
    if launches is not None:
        spans, of_all, rows = _taken_out(spans, of_all, launches)
        makespan = of_all[-1][2] if of_all else 0
    view = gantt(
        spans,
        units=[(name, group_of(name)) for name in trace.unit_names],
        kinds=[code.name for code in Opcode],
        causes=causes,
        waits=[*columns],
        launches=of_all,
        makespan=makespan,
        clock_mhz=trace.machine.clock_mhz,
    )
    return replace(view, row=rows[view.row])


def _taken_out(spans: Spans, of_all: _Launched, launches: Sequence[int]) -> tuple[Spans, _Launched, _Numbers]:
    """Some launches with their spans, each right after the one before: also the rows of these spans in the trace."""
    kept, earlier, now = _Launched(), np.zeros(len(of_all), np.int64), 0
    number = np.full(len(of_all), -1, np.int64)
    for place, launch in enumerate(launches):
        name, begin, end = of_all[launch]
        before = of_all[launch - 1][2] if launch else 0
        earlier[launch], number[launch] = before - now, place
        kept.append((name, begin - before + now, end - before + now))
        now += end - before
    rows = np.flatnonzero(number[spans.launch] >= 0)
    of = spans.launch[rows]
    fields = ("lane", "kind", "cause", "waits", "idle")
    taken = {name: getattr(spans, name)[rows] for name in fields}
    tails = tuple((cause, cycles[rows]) for cause, cycles in spans.tails)
    start, end = spans.start[rows] - earlier[of], spans.end[rows] - earlier[of]
    return Spans(start=start, end=end, launch=number[of], tails=tails, **taken), kept, rows


def _waits(trace: Trace, found: Waited) -> dict[str, npt.NDArray[np.int64]]:
    """The waits within each span, by their names in `.stalls`."""
    columns: dict[str, npt.NDArray[np.int64]] = {}
    for wait in Wait if len(trace.waits) else ():
        if wait == Wait.MEMORY_BUS:
            columns |= {MEMORY_PEAK: found.within - found.wasted_within, INEFFICIENT: found.wasted_within}
        else:
            columns[wait.label] = trace.waits[:, wait].astype(np.int64)
    return columns | unanswered(trace)
