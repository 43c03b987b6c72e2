"""Starts and ends: when the head of a queue can start, and what follows from its start for all that waits."""

from __future__ import annotations

from simulator.compiled import compiled, compiled_apart
from simulator.engine.state import (
    ACCUMULATE_KIND,
    AFTER_READ_KIND,
    ARRAYS,
    AT_BANDWIDTH,
    AT_COMMON,
    AT_UNIT,
    BACKLOG,
    BUS_USER,
    CAUSE_OF_KIND,
    COMMON_USER,
    FREE,
    INTERCONNECT,
    LATEST,
    MEMORY_BUS,
    MOST_WAITED,
    NEVER,
    QUEUES,
    RUNNING,
    SHADOW,
    SYSTOLIC,
    Asked,
    Launch,
    Parts,
)
from simulator.memory import chiplet_buses, dram, network
from simulator.memory.chiplet_buses import Buses
from simulator.memory.network import Network
from simulator.records.spans import BLOCKER, CAUSE, DONE, END, ISSUE, ISSUE_BLOCKER, PHASE, START, UNIT
from simulator.tileprogram.program import I64
from simulator.units.cost_table import (
    CHAIN,
    CLASS,
    COMMON,
    CYCLES,
    DRAIN,
    KEEPS,
    LAST,
    MARK,
    MEET,
    PRELOAD,
    REQUESTED,
    WAITING,
)


@compiled
def ready_time(head: int, number: int, asked: Asked, launch: Launch) -> int:
    """When the head of a queue could start, the memory aside; -1 while it waits for something without a known end."""
    table, wait, wait_kind = asked.table, asked.wait, asked.wait_kind
    unit, spans = launch.unit, launch.spans
    systolic = table[head, CLASS] == SYSTOLIC
    waiting = systolic and not _goes_on(head, number, table, unit)
    time = max(spans[head, ISSUE], unit[number, SHADOW] if waiting else unit[number, FREE])
    for edge in range(asked.wait_start[head], asked.wait_start[head + 1]):
        source = wait[edge]
        if spans[source, ISSUE if wait_kind[edge] == MEET else DONE] < 0:
            return -1
        if wait_kind[edge] != ACCUMULATE_KIND or table[head, CHAIN] != source:  # a chain's array is its order
            time = max(time, _met_at(edge, head, asked, spans))
    return time


@compiled
def _goes_on(row: int, number: int, table: I64, unit: I64) -> bool:
    """Whether a matmul's sums still lie in its array."""
    return bool(table[row, MARK] == KEEPS and table[row, CHAIN] >= 0 and table[row, CHAIN] == unit[number, LATEST])


@compiled
def _met_at(edge: int, row: int, asked: Asked, spans: I64) -> int:
    """When a dependence on an instruction whose end is known is met: at its end if it need not be complete."""
    source, kind = asked.wait[edge], asked.wait_kind[edge]
    if kind == MEET:
        return spans[source, ISSUE]
    if kind == AFTER_READ_KIND or (kind == ACCUMULATE_KIND and asked.table[row, CHAIN] == source):
        return spans[source, END]
    return spans[source, DONE]


@compiled_apart
def start_head(
    row: int,
    at: int,
    asked: Asked,
    parts: Parts,
    banked: dram.Banked | None,
    net: Network | None,
    lines: Buses | None,
    launch: Launch,
) -> None:
    """Starts an instruction: from here on its whole future is known, unless it is a transfer in banked memory."""
    table, unit, spans = asked.table, launch.unit, launch.spans
    number = spans[row, UNIT]
    _say_why(row, asked, parts, lines, launch)
    if table[row, CLASS] == SYSTOLIC:
        _stream(row, number, at, table, unit, spans)
    elif table[row, REQUESTED] > 0:
        if banked is not None:
            source = _source_of(number, parts.figures)
            dram.begin_transfer(parts.memory, parts.memory_state, banked, net, source, row, at)
            launch.shared[RUNNING] += 1
            spans[row, END] = NEVER
        else:
            _transfer(row, at, table, parts, net, lines, launch)
    elif table[row, COMMON] > 0:
        sent = dram.serve_common(parts.memory, parts.memory_state, at, table[row, COMMON])
        spans[row, PHASE] = max(sent, at + table[row, CYCLES])
        spans[row, END] = spans[row, DONE] = spans[row, PHASE] + dram.common_latency(parts.memory)
        launch.shared[COMMON_USER] = row
    else:
        spans[row, PHASE] = at + table[row, CYCLES]
        spans[row, END] = spans[row, DONE] = spans[row, PHASE] + table[row, WAITING]
    unit[number, FREE], unit[number, LATEST] = spans[row, END], row
    unit[number, BACKLOG] -= table[row, CYCLES]


@compiled
def _say_why(row: int, asked: Asked, parts: Parts, lines: Buses | None, launch: Launch) -> None:
    """Notes when each constraint of an instruction that starts was met, and which was the last."""
    table, unit, shared, spans = asked.table, launch.unit, launch.shared, launch.spans
    met, by, number = launch.met, launch.by, launch.spans[row, UNIT]
    for cause in range(len(by)):
        by[cause] = spans[row, ISSUE_BLOCKER]  # what was last of what its issue waited for, none other can be last now
    if unit[number, LATEST] >= 0:
        free = unit[number, FREE]
        if table[row, CLASS] == SYSTOLIC and not _goes_on(row, number, table, unit):
            free = max(free, unit[number, SHADOW])
        met[row, AT_UNIT], by[AT_UNIT] = free, unit[number, LATEST]
    if table[row, REQUESTED] > 0:
        user = shared[BUS_USER]
        if lines is not None:
            user = chiplet_buses.granted_last(lines, row)
        if user >= 0:
            met[row, AT_BANDWIDTH], by[AT_BANDWIDTH] = granted(parts, lines, row, 0), user
    if table[row, COMMON] > 0 and shared[COMMON_USER] >= 0:
        time = dram.grant_common(parts.memory, parts.memory_state, 0)
        met[row, AT_COMMON], by[AT_COMMON] = time, shared[COMMON_USER]
    for edge in range(asked.wait_start[row], asked.wait_start[row + 1]):
        source, kind = asked.wait[edge], int(asked.wait_kind[edge])
        cause = CAUSE_OF_KIND[kind]
        time = _met_at(edge, row, asked, spans)
        if kind == MEET and time <= spans[row, ISSUE]:
            continue  # who was there before has not been waited for: of those that come together, none waits
        if time > met[row, cause]:
            met[row, cause], by[cause] = time, source
    last = 0
    for candidate in range(len(by)):
        if met[row, candidate] >= met[row, last]:
            last = candidate
    spans[row, START], spans[row, CAUSE], spans[row, BLOCKER] = met[row, last], last, by[last]


@compiled
def _transfer(
    row: int, at: int, table: I64, parts: Parts, net: Network | None, lines: Buses | None, launch: Launch
) -> None:
    """A transfer of a simple memory: its bytes pass the memory's bus, or those of its chiplets, and the network."""
    spans, waits = launch.spans, launch.waits
    if lines is None:
        sent = dram.serve(parts.memory, parts.memory_state, at, table[row, REQUESTED])
    else:
        sent, least = chiplet_buses.serve(lines, row, at), at + table[row, CYCLES]
        behind = max(sent, least) - max(chiplet_buses.alone(lines, row, at), least)
        waits[row, MEMORY_BUS] = min(behind, MOST_WAITED)
    spans[row, PHASE] = max(sent, at + table[row, CYCLES])
    answered = spans[row, PHASE] + dram.latency(parts.memory)
    spans[row, END] = max(answered, at + table[row, CYCLES] + table[row, WAITING])
    if net is not None:
        over = spans[row, END]
        source = _source_of(spans[row, UNIT], parts.figures)
        passed = network.carry(net, source, row, at)
        spans[row, PHASE] = max(spans[row, PHASE], passed)
        answered = spans[row, PHASE] + dram.latency(parts.memory) + network.longest_way(net, source, row)
        spans[row, END] = max(answered, over)
        waits[row, INTERCONNECT] = min(spans[row, END] - over, MOST_WAITED)
    spans[row, DONE] = spans[row, END]
    launch.shared[BUS_USER] = row


@compiled
def granted(parts: Parts, lines: Buses | None, row: int, ready: int) -> int:
    """The first cycle, not before `ready`, at which a transfer may begin."""
    if lines is None:
        return dram.grant(parts.memory, parts.memory_state, ready)
    return chiplet_buses.grant(lines, row, ready)


@compiled
def _source_of(number: int, figures: I64) -> int:
    """What a unit is to a banked memory: each core has its DMA queues there, and its scalar unit."""
    units = figures[QUEUES] + figures[ARRAYS] + 2
    return number // units * (figures[QUEUES] + 1) + min(number % units, figures[QUEUES])


@compiled
def unit_of(source: int, figures: I64) -> int:
    """The unit that is this to a banked memory."""
    units, asking = figures[QUEUES] + figures[ARRAYS] + 2, figures[QUEUES] + 1
    own = source % asking
    return source // asking * units + (own if own < figures[QUEUES] else units - 1)


@compiled
def end_transfer(number: int, source: int, asked: Asked, parts: Parts, banked: dram.Banked, launch: Launch) -> None:
    """Ends a unit's transfer in banked memory."""
    table, memory, unit, spans = asked.table, parts.memory, launch.unit, launch.spans
    row = unit[number, LATEST]
    least, ended = spans[row, START] + table[row, CYCLES], dram.ended(memory, banked, source)
    spans[row, PHASE] = max(ended, least + dram.way(memory))
    spans[row, END] = spans[row, DONE] = max(spans[row, PHASE], least + table[row, WAITING])
    dram.waited(memory, banked, source, launch.waits[row], spans[row, END] == ended)
    unit[number, FREE] = spans[row, END]
    launch.shared[RUNNING] -= 1


@compiled
def _stream(row: int, number: int, preload: int, table: I64, unit: I64, spans: I64) -> None:
    """A matmul whose preload begins at `preload`: it streams once its weights are in and its array has room."""
    moved_in = 0 if _goes_on(row, number, table, unit) else table[row, PRELOAD]
    stream = max(preload + moved_in, spans[row, START])
    spans[row, PHASE] = stream
    spans[row, END] = stream + table[row, CYCLES]
    spans[row, DONE] = spans[row, END] + table[row, DRAIN]
    room = spans[row, END] - table[row, LAST]
    unit[number, SHADOW] = max(unit[number, SHADOW], room)  # what is left out frees nothing sooner than what was not
