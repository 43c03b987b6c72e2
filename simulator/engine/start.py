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
)
from simulator.memory import chiplet_buses, dram, network
from simulator.memory.chiplet_buses import Buses
from simulator.memory.network import Network
from simulator.records.spans import BLOCKER, CAUSE, DONE, END, ISSUE, ISSUE_BLOCKER, PHASE, START
from simulator.tileprogram.program import I32, I64, U8
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
def ready_time(
    head: int,
    number: int,
    table: I64,
    wait_start: I64,
    wait: I32,
    wait_kind: U8,
    unit: I64,
    spans: I64,
    figures: I64,
) -> int:
    """When the head of a queue could start, the memory aside; -1 while it waits for something without a known end."""
    systolic = table[head, CLASS] == SYSTOLIC
    waiting = systolic and not _goes_on(head, number, table, unit)
    time = max(spans[head, ISSUE], unit[number, SHADOW] if waiting else unit[number, FREE])
    for edge in range(wait_start[head], wait_start[head + 1]):
        source = wait[edge]
        if spans[source, ISSUE if wait_kind[edge] == MEET else DONE] < 0:
            return -1
        if wait_kind[edge] != ACCUMULATE_KIND or table[head, CHAIN] != source:  # a chain's array is its order
            time = max(time, _met_at(edge, head, table, wait, wait_kind, spans))
    return time


@compiled
def _goes_on(row: int, number: int, table: I64, unit: I64) -> bool:
    """Whether a matmul's sums still lie in its array."""
    return bool(table[row, MARK] == KEEPS and table[row, CHAIN] >= 0 and table[row, CHAIN] == unit[number, LATEST])


@compiled
def _met_at(edge: int, row: int, table: I64, wait: I32, wait_kind: U8, spans: I64) -> int:
    """When a dependence on an instruction whose end is known is met: at its end if it need not be complete."""
    source, kind = wait[edge], wait_kind[edge]
    if kind == MEET:
        return spans[source, ISSUE]
    if kind == AFTER_READ_KIND or (kind == ACCUMULATE_KIND and table[row, CHAIN] == source):
        return spans[source, END]
    return spans[source, DONE]


@compiled_apart
def start_head(
    row: int,
    number: int,
    at: int,
    table: I64,
    wait_start: I64,
    wait: I32,
    wait_kind: U8,
    figures: I64,
    memory: I64,
    state: I64,
    banked: dram.Banked | None,
    net: Network | None,
    lines: Buses | None,
    unit: I64,
    shared: I64,
    spans: I64,
    met: I64,
    by: I64,
    waits: I32,
) -> None:
    """Starts an instruction: from here on its whole future is known, unless it is a transfer in banked memory."""
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
            met[row, AT_BANDWIDTH], by[AT_BANDWIDTH] = granted(memory, state, lines, row, 0), user
    if table[row, COMMON] > 0 and shared[COMMON_USER] >= 0:
        met[row, AT_COMMON], by[AT_COMMON] = dram.grant_common(memory, state, 0), shared[COMMON_USER]
    for edge in range(wait_start[row], wait_start[row + 1]):
        source, kind = wait[edge], int(wait_kind[edge])
        cause = CAUSE_OF_KIND[kind]
        time = _met_at(edge, row, table, wait, wait_kind, spans)
        if kind == MEET and time <= spans[row, ISSUE]:
            continue  # who was there before has not been waited for: of those that come together, none waits
        if time > met[row, cause]:
            met[row, cause], by[cause] = time, source
    last = 0
    for candidate in range(len(by)):
        if met[row, candidate] >= met[row, last]:
            last = candidate
    spans[row, START], spans[row, CAUSE], spans[row, BLOCKER] = met[row, last], last, by[last]
    if table[row, CLASS] == SYSTOLIC:
        _stream(row, number, at, table, unit, spans)
    elif table[row, REQUESTED] > 0:
        if banked is not None:
            dram.begin_transfer(memory, state, banked, net, _source_of(number, figures), row, at)
            shared[RUNNING] += 1
            spans[row, END] = NEVER
        else:
            if lines is None:
                sent = dram.serve(memory, state, at, table[row, REQUESTED])
            else:
                sent, least = chiplet_buses.serve(lines, row, at), at + table[row, CYCLES]
                behind = max(sent, least) - max(chiplet_buses.alone(lines, row, at), least)
                waits[row, MEMORY_BUS] = min(behind, MOST_WAITED)
            spans[row, PHASE] = max(sent, at + table[row, CYCLES])
            answered = spans[row, PHASE] + dram.latency(memory)
            spans[row, END] = max(answered, at + table[row, CYCLES] + table[row, WAITING])
            if net is not None:
                over = spans[row, END]
                source = _source_of(number, figures)
                passed = network.carry(net, source, row, at)
                spans[row, PHASE] = max(spans[row, PHASE], passed)
                answered = spans[row, PHASE] + dram.latency(memory) + network.longest_way(net, source, row)
                spans[row, END] = max(answered, over)
                waits[row, INTERCONNECT] = min(spans[row, END] - over, MOST_WAITED)
            spans[row, DONE] = spans[row, END]
            shared[BUS_USER] = row
    elif table[row, COMMON] > 0:
        sent = dram.serve_common(memory, state, at, table[row, COMMON])
        spans[row, PHASE] = max(sent, at + table[row, CYCLES])
        spans[row, END] = spans[row, DONE] = spans[row, PHASE] + dram.common_latency(memory)
        shared[COMMON_USER] = row
    else:
        spans[row, PHASE] = at + table[row, CYCLES]
        spans[row, END] = spans[row, DONE] = spans[row, PHASE] + table[row, WAITING]
    unit[number, FREE], unit[number, LATEST] = spans[row, END], row
    unit[number, BACKLOG] -= table[row, CYCLES]


@compiled
def granted(memory: I64, state: I64, lines: Buses | None, row: int, ready: int) -> int:
    """The first cycle, not before `ready`, at which a transfer may begin."""
    if lines is None:
        return dram.grant(memory, state, ready)
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
def end_transfer(
    number: int,
    source: int,
    table: I64,
    memory: I64,
    banked: dram.Banked,
    unit: I64,
    shared: I64,
    spans: I64,
    waits: I32,
) -> None:
    """Ends a unit's transfer in banked memory."""
    row = unit[number, LATEST]
    least, ended = spans[row, START] + table[row, CYCLES], dram.ended(memory, banked, source)
    spans[row, PHASE] = max(ended, least + dram.way(memory))
    spans[row, END] = spans[row, DONE] = max(spans[row, PHASE], least + table[row, WAITING])
    dram.waited(memory, banked, source, waits[row], spans[row, END] == ended)
    unit[number, FREE] = spans[row, END]
    shared[RUNNING] -= 1


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
