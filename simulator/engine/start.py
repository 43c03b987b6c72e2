"""Starts and ends of instructions: when the head of a queue can start, and the times that its start fixes."""

from __future__ import annotations

from simulator.compiled import compiled, compiled_apart
from simulator.engine.state import MOST_WAITED, NEVER, Kinds, Launch, LoopWork, Parts, UnitStates
from simulator.memory import bus, dram, network, several_buses
from simulator.memory.network import Network
from simulator.memory.several_buses import Buses
from simulator.records.spans import Cause, SpanTable, Wait
from simulator.tileprogram.program import DependenceKind
from simulator.units.cost_table import MEET, CostTable
from simulator.units.unit import KEEPS

_CAUSES = (
    Cause.DATA.value,
    Cause.WRITE_AFTER_READ.value,
    Cause.WRITE_AFTER_WRITE.value,
    Cause.ACCUMULATE.value,
    Cause.REUSE.value,
    Cause.BARRIER.value,
)
"""The cause of a wait, by `DependenceKind`; the last cause is for `MEET`."""


@compiled
def ready_time(head: int, number: int, work: LoopWork, kinds: Kinds, launch: Launch) -> int:
    """The cycle in which a queue's head can start, its wait for the memory aside; -1 while that is not known yet."""
    table, wait, wait_kind = work.table, work.wait, work.wait_kind
    units, spans = launch.units, launch.spans
    waiting = kinds.streams[table.kind[head]] and not _goes_on(head, number, table, units)
    time = max(spans.issue[head], units.shadow[number] if waiting else units.free[number])
    for edge in range(work.wait_start[head], work.wait_start[head + 1]):
        source = wait[edge]
        if (spans.issue[source] if wait_kind[edge] == MEET else spans.done[source]) < 0:
            return -1
        if wait_kind[edge] != DependenceKind.ACCUMULATE or table.chain[head] != source:  # a chain's array keeps order
            time = max(time, _met_at(edge, head, work, spans))
    return time


@compiled
def _goes_on(row: int, number: int, table: CostTable, units: UnitStates) -> bool:
    """True if the sums to which a matmul adds still lie in its array."""
    return bool(table.mark[row] == KEEPS and table.chain[row] >= 0 and table.chain[row] == units.latest[number])


@compiled
def _met_at(edge: int, row: int, work: LoopWork, spans: SpanTable) -> int:
    """The cycle in which a dependence is met: the issue, end or completion of the instruction that it waits for."""
    source, kind = work.wait[edge], work.wait_kind[edge]
    if kind == MEET:
        return int(spans.issue[source])
    goes_on = kind == DependenceKind.ACCUMULATE and work.table.chain[row] == source
    return int(spans.end[source] if goes_on or kind == DependenceKind.WRITE_AFTER_READ else spans.done[source])


@compiled_apart
def start_head(
    row: int,
    at: int,
    work: LoopWork,
    parts: Parts,
    banked: dram.Banked | None,
    net: Network | None,
    lines: Buses | None,
    launch: Launch,
) -> None:
    """Starts an instruction and sets its end, unless it is a transfer in banked memory, whose end comes later."""
    table, units, spans = work.table, launch.units, launch.spans
    number = spans.unit[row]
    _say_why(row, work, parts, lines, launch)
    if parts.kinds.streams[table.kind[row]]:
        _stream(row, number, at, table, units, spans)
    elif table.requested[row] > 0:
        if banked is not None:
            source = _source_of(number, parts)
            dram.begin_transfer(parts.memory, parts.memory_state, banked, net, source, row, at)
            launch.shared.running[0] += 1
            spans.end[row] = NEVER
        else:
            _transfer(row, at, table, parts, net, lines, launch)
    elif table.second[row] > 0:
        sent = bus.serve(parts.second, at, table.second[row])
        spans.phase[row] = max(sent, at + table.cycles[row])
        spans.end[row] = spans.done[row] = spans.phase[row] + parts.second.latency
        launch.shared.second_user[0] = row
    else:
        spans.phase[row] = at + table.cycles[row]
        spans.end[row] = spans.done[row] = spans.phase[row] + table.waiting[row]
    units.free[number], units.latest[number] = spans.end[row], row
    units.backlog[number] -= table.cycles[row]


@compiled
def _say_why(row: int, work: LoopWork, parts: Parts, lines: Buses | None, launch: Launch) -> None:
    """Records when each constraint of an instruction that starts was met, and which was met last."""
    table, units, shared, spans = work.table, launch.units, launch.shared, launch.spans
    met, by, number = launch.met, launch.by, launch.spans.unit[row]
    for cause in range(len(by)):
        by[cause] = spans.issue_blocker[row]  # the blocker if no later constraint follows
    if units.latest[number] >= 0:
        free = units.free[number]
        if parts.kinds.streams[table.kind[row]] and not _goes_on(row, number, table, units):
            free = max(free, units.shadow[number])
        met[row, Cause.UNIT_BUSY], by[Cause.UNIT_BUSY] = free, units.latest[number]
    if table.requested[row] > 0:
        user = shared.bus_user[0]
        if lines is not None:
            user = several_buses.granted_last(lines, row)
        if user >= 0:
            met[row, Cause.BANDWIDTH], by[Cause.BANDWIDTH] = granted(parts, lines, row, 0), user
    if table.second[row] > 0 and shared.second_user[0] >= 0:
        time = bus.grant(parts.second, 0)
        met[row, Cause.SECOND_MEMORY], by[Cause.SECOND_MEMORY] = time, shared.second_user[0]
    for edge in range(work.wait_start[row], work.wait_start[row + 1]):
        source, kind = work.wait[edge], int(work.wait_kind[edge])
        cause = _CAUSES[kind]
        time = _met_at(edge, row, work, spans)
        if kind == MEET and time <= spans.issue[row]:
            continue  # a core that arrived before or with this one did not make it wait
        if time > met[row, cause]:
            met[row, cause], by[cause] = time, source
    last = 0
    for candidate in range(len(by)):
        if met[row, candidate] >= met[row, last]:
            last = candidate
    spans.start[row], spans.cause[row], spans.blocker[row] = met[row, last], last, by[last]


@compiled
def _transfer(
    row: int, at: int, table: CostTable, parts: Parts, net: Network | None, lines: Buses | None, launch: Launch
) -> None:
    """Starts a transfer of a simple memory: its bytes pass the bus, or the buses of several parts, and the network."""
    spans, waits = launch.spans, launch.waits
    if lines is None:
        sent = bus.serve(parts.bus, at, table.requested[row])
    else:
        sent, least = several_buses.serve(lines, row, at), at + table.cycles[row]
        behind = max(sent, least) - max(several_buses.alone(lines, row, at), least)
        waits[row, Wait.MEMORY_BUS] = min(behind, MOST_WAITED)
    spans.phase[row] = max(sent, at + table.cycles[row])
    answered = spans.phase[row] + parts.bus.latency
    spans.end[row] = max(answered, at + table.cycles[row] + table.waiting[row])
    if net is not None:
        over = spans.end[row]
        source = _source_of(spans.unit[row], parts)
        passed = network.carry(net, source, row, at)
        spans.phase[row] = max(spans.phase[row], passed)
        answered = spans.phase[row] + parts.bus.latency + network.longest_way(net, source, row)
        spans.end[row] = max(answered, over)
        waits[row, Wait.INTERCONNECT] = min(spans.end[row] - over, MOST_WAITED)
    spans.done[row] = spans.end[row]
    launch.shared.bus_user[0] = row


@compiled
def granted(parts: Parts, lines: Buses | None, row: int, ready: int) -> int:
    """The first cycle, not before `ready`, at which a transfer may begin."""
    if lines is not None:
        return several_buses.grant(lines, row, ready)
    return ready if parts.memory.banked else bus.grant(parts.bus, ready)


@compiled
def _source_of(number: int, parts: Parts) -> int:
    """The source number of a unit: units that may access the memory are numbered as sources of requests."""
    units = parts.figures.units
    return number // units * parts.figures.asking + parts.kinds.source[number % units]


@compiled
def unit_of(source: int, parts: Parts) -> int:
    """The unit with a source number."""
    asking = parts.figures.asking
    return source // asking * parts.figures.units + parts.kinds.asker[source % asking]


@compiled
def end_transfer(number: int, source: int, work: LoopWork, parts: Parts, banked: dram.Banked, launch: Launch) -> None:
    """Ends a unit's transfer in banked memory."""
    table, memory, units, spans = work.table, parts.memory, launch.units, launch.spans
    row = units.latest[number]
    least, ended = spans.start[row] + table.cycles[row], dram.ended(memory, banked, source)
    spans.phase[row] = max(ended, least + memory.way)
    spans.end[row] = spans.done[row] = max(spans.phase[row], least + table.waiting[row])
    dram.waited(memory, banked, source, launch.waits[row], spans.end[row] == ended)
    units.free[number] = spans.end[row]
    launch.shared.running[0] -= 1


@compiled
def _stream(row: int, number: int, preload: int, table: CostTable, units: UnitStates, spans: SpanTable) -> None:
    """Starts a matmul whose preload begins at `preload`: it streams once its weights are in and its array has room."""
    moved_in = 0 if _goes_on(row, number, table, units) else table.preload[row]
    stream = max(preload + moved_in, spans.start[row])
    spans.phase[row] = stream
    spans.end[row] = stream + table.cycles[row]
    spans.done[row] = spans.end[row] + table.drain[row]
    room = spans.end[row] - table.last[row]
    units.shadow[number] = max(units.shadow[number], room)  # a skipped matmul frees the array no sooner
