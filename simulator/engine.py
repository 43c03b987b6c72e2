"""The event loop: programs x machine -> trace, in integer cycles, without ticking.

Every core runs its own instructions. They leave the program in order, one every `issue_interval_cycles`, into a queue
in front of one of its units: a copy into the DMA queue with the least before it, a matmul to the array that accumulates
its chain, or else to the array that would be free first, or whose turn it is, as `systolic_selection` says; a vector
pass to the vector unit, a loop of accesses to the scalar unit. Issue waits while all queues it could take are full, and
while an instruction `issue_window` places before is not complete. The head of a queue starts when its unit is free, its
dependences are met and, for what goes to a memory that all cores share (DRAM, or the common memory), that memory grants
it; a matmul's preload may begin while its array still streams.

A BARRIER is issued when all before it on its core is complete, and starts when the others of its meeting have been
issued; nothing after it is issued until it is complete.

Three kinds of events exist, an issue, a start, and with banked memory the end of a transfer; the loop always takes the
earliest that is possible (an end first, then an issue, then what has been ready longest, so that who comes first to the
memory is served first, then what comes first in its core's order). An instruction's whole future is known when it
starts, but that of a transfer in banked memory: until it has ended, nothing that waits for it has a time. So a start is
possible once the future of everything it waits for is known, and events come in order of time. If none is possible
although something has not started, instructions wait for one another for ever: `deadlock` tells which.

Launches run one after another: the scratchpad starts empty, and a launch begins when the last has ended.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator import buses, dram, host, network
from simulator.buses import Buses
from simulator.chiplets import Placed, check_placed
from simulator.common_memory import CommonMemory, Resident, check_plan
from simulator.costs import (
    CHAIN,
    CLASS,
    COMMON,
    CORE,
    CYCLES,
    DRAIN,
    KEEPS,
    LAST,
    MARK,
    MEET,
    MEETS,
    PRELOAD,
    REQUESTED,
    WAITING,
    Told,
    Work,
    work,
)
from simulator.deadlock import deadlock
from simulator.errors import LaunchError, ProgramError
from simulator.jit import compiled, compiled_apart
from simulator.machine import Machine
from simulator.network import Network
from simulator.pages import PageTable
from simulator.placement import check_fit
from simulator.program import I32, I64, U8, TileProgram
from simulator.repeats import Repeats
from simulator.spans import (
    BLOCKER,
    CAUSE,
    CAUSES,
    DONE,
    END,
    ISSUE,
    ISSUE_BLOCKER,
    ISSUE_CAUSE,
    PHASE,
    SPAN_COLUMNS,
    START,
    UNIT,
    WAITS,
    HostCall,
    Launched,
    Wait,
)
from simulator.trace import Trace, assemble, unit_names
from simulator.verifier import LARGEST, verify_tables
from simulator.watch import EVENTS, Progress, Watch
from simulator.zeros import skipped

# Unit classes and causes as plain integers, which is what the compiled functions know
_DMA, _SYSTOLIC, _SCALAR = 0, 1, 3
_AT_LAUNCH, _AT_ISSUE, _AT_WINDOW, _AT_QUEUE, _AT_UNIT, _AT_BANDWIDTH = 0, 1, 2, 3, 4, 5
_AT_BARRIER, _AT_COMMON = 11, 12
_CAUSE_OF_KIND = (10, 6, 7, 9, 8, 11)
_AFTER_READ_KIND, _ACCUMULATE_KIND = 1, 3
_NEVER = 1 << 62
_INTERCONNECT, _MEMORY_BUS, _MOST_WAITED = int(Wait.INTERCONNECT), int(Wait.MEMORY_BUS), (1 << 31) - 1

# Figures of the machine, as the event loop reads them
_QUEUES, _ARRAYS, _DEPTH, _WINDOW, _INTERVAL, _CORES, _IN_TURN, _FIGURES = 0, 1, 2, 3, 4, 5, 6, 7

# State of one unit
_HEAD, _COUNT, _FREE, _LATEST, _READY, _SHADOW, _BACKLOG, _UNIT_STATE = 0, 1, 2, 3, 4, 5, 6, 7

# State of a core's issue stage; instructions are counted in the core's own order, of which `_BASE` is the first; the
# last is the array whose turn it is
_NEXT, _TIME, _BLOCKED, _FREED, _FREED_BY, _RETIRED, _BASE, _LENGTH, _TURN, _ISSUE_STATE = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9

# State of the launch: who was last on the bus, how many transfers run in banked memory, when it began, what has
# started, who was last on the common memory's bus
_BUS_USER, _RUNNING, _BEGIN, _STARTED, _COMMON_USER = 0, 1, 2, 3, 4

# How the loop comes back
_OVER, _PAUSED, _STUCK = 0, 1, 2


def simulate(
    launches: Sequence[Launched | HostCall],
    machine: Machine,
    *,
    seconds: float | None = None,
    repeats: bool = True,
    progress: Progress | None = None,
    residents: Sequence[Resident] = (),
    placed: Sequence[Placed] = (),
) -> Trace:
    """Runs the launches, and the steps on the host between them, one after another on the machine.

    `seconds` is the time it may take, and `progress` is told how far it is. With `repeats` a launch that can only do
    what one before it did is not simulated again (see repeats.py); the trace is the same. `residents` is what stays in
    the common memory, `placed` whose memory the pages of tensors lie in on a machine of several chiplets.

    Raises `DoesNotFit` for a program with more buffers than scratchpad, `CommonMemoryFull` for more residents than the
    common memory holds, `NoSuchPlace` for a chiplet that is not there, `NotYetSupported` for what this version cannot
    simulate, `ProgramError` or `LaunchError` for what makes no sense, `SimulationStopped` when its time is over.
    """
    figures = np.zeros(_FIGURES, np.int64)
    figures[_QUEUES], figures[_ARRAYS] = machine.dma_queues, machine.systolic_arrays
    figures[_DEPTH], figures[_WINDOW] = machine.queue_depth, machine.issue_window
    figures[_INTERVAL], figures[_CORES] = machine.issue_interval_cycles, machine.cores
    figures[_IN_TURN] = machine.systolic_selection == "in_turn"
    memory, state, banked = dram.parameters(machine), dram.idle_state(), dram.banked(machine)
    net, lines, pages = network.network(machine), buses.buses(machine), PageTable(machine, placed)
    works, begins = list[Told](), list[int]()
    spans, met, waits = list[I64](), list[I64](), list[I32]()
    checked = set[int]()
    watch = Watch(seconds, progress, len(launches), sum(map(_length, launches)))
    ran, common = Repeats(machine, repeats), CommonMemory(residents)
    check_plan(residents, machine, len(launches))
    check_placed(placed, machine)
    now = 0
    for index, launched in enumerate(launches):
        watch.launch, watch.kernel = index, launched.kernel
        watch.look(0, now)
        _check_order(index, launched)
        if isinstance(launched, HostCall):
            begins.append(now)
            asked, rows, times = host.run(launched, machine, len(unit_names(machine)), now)
            within = _no_waits(len(rows), machine)
        else:
            if id(launched.program) not in checked:
                _check_program(launched.program, machine)
                checked.add(id(launched.program))
            _check_launch(index, launched)
            now += machine.launch_overhead_cycles
            begins.append(now)
            served = common.launch(index, launched, skipped(launched, machine))
            found = ran.find(launched, served, now)
            if found is None:
                whole = work(launched.program, launched.addresses, machine, launched.indices, served)
                whole = pages.launch(index, launched.program, whole)
                banked = dram.launched(banked, machine, whole, pages.table())
                net, lines = network.launched(net, machine, whole), buses.launched(lines, whole)
                told, within = whole.told(), _no_waits(len(launched.program), machine)
                whole = whole.to_run()
                rows, times = _run(
                    launched.program, whole, figures, memory, state, banked, net, lines, within, now, watch
                )
                found = told, rows, times, within
                del whole  # which is as large as its program
                ran.keep(launched, served, now, found)
            asked, rows, times, within = found
        now = max(now, int(rows[:, DONE].max(initial=0)))
        watch.before += len(rows)
        works.append(asked)
        spans.append(rows)
        met.append(times)
        waits.append(within)
    channels, links = dram.statistics(memory, banked, now), network.carried(net)
    return assemble(launches, machine, works, spans, met, waits, begins, channels, links, residents, placed)


def _no_waits(rows: int, machine: Machine) -> I32:
    """Room for what each instruction waits for while it holds its unit, where the machine tells it apart.

    Cycles of 32 bits: more would be hours of simulation in banked memory, and with the simple one the rest is busy.
    """
    told = machine.memory == "banked" or machine.has_links
    return np.zeros((rows if told else 0, WAITS), np.int32)


def _length(launched: Launched | HostCall) -> int:
    return host.HOST_STEPS if isinstance(launched, HostCall) else len(launched.program)


def _check_program(program: TileProgram, machine: Machine) -> None:
    verify_tables(program)
    check_fit(program, machine.scratchpad_bytes)
    if program.core.max(initial=0) >= machine.cores:
        where = f"{machine.name!r} has {machine.cores}"
        raise ProgramError(program.kernel, [f"instructions of core {program.core.max()}: {where}"])


def _check_launch(index: int, launched: Launched) -> None:
    given, expected = len(launched.addresses), len(launched.program.arguments)
    if given != expected:
        raise LaunchError(f"launch {index} of {launched.kernel!r} gives {given} addresses for {expected} arguments")
    for address in launched.addresses:
        if not 0 <= address <= LARGEST:
            raise LaunchError(
                f"launch {index} of {launched.kernel!r} has an argument at {address}: no address of a memory"
            )


def _check_order(index: int, launched: Launched | HostCall) -> None:
    late = [other for other in launched.after if not 0 <= other < index]
    if late:
        raise LaunchError(f"launch {index} of {launched.kernel!r} waits for launch {late[0]}, which is not before it")


def _run(
    program: TileProgram,
    asked: Work,
    figures: I64,
    memory: I64,
    state: I64,
    banked: dram.Banked | None,
    net: Network | None,
    lines: Buses | None,
    waits: I32,
    begin: int,
    watch: Watch,
) -> tuple[I64, I64]:
    """Spans of one launch, and when each of their constraints was met; fills in what they waited for within."""
    rows = len(asked.table)
    by = np.zeros(CAUSES, np.int64)  # and by whom, of the instruction that is at hand
    cores = int(figures[_CORES])
    units = cores * (int(figures[_QUEUES] + figures[_ARRAYS]) + 2)
    unit = np.full((units, _UNIT_STATE), -1, np.int64)
    unit[:, (_HEAD, _COUNT, _SHADOW, _BACKLOG)] = 0
    queue = np.zeros((units, int(figures[_DEPTH])), np.int64)
    order = np.argsort(program.core, kind="stable").astype(np.int32)  # core by core
    stage = np.full((cores, _ISSUE_STATE), -1, np.int64)
    stage[:, (_NEXT, _BLOCKED, _RETIRED, _TURN)], stage[:, _TIME] = 0, begin
    stage[:, _LENGTH] = np.bincount(program.core, minlength=cores)
    stage[:, _BASE] = np.cumsum(stage[:, _LENGTH]) - stage[:, _LENGTH]
    place = np.zeros(rows, np.int32)  # of an instruction in its core's order
    place[order] = np.arange(rows) - stage[program.core[order], _BASE]
    shared = np.array([-1, 0, begin, 0, -1], np.int64)
    spans = np.full((rows, SPAN_COLUMNS), -1, np.int64)
    met = np.full((rows, CAUSES), -1, np.int64)  # when each constraint was met
    retired = np.zeros(rows, np.int32)  # who is complete last of all of a core up to each, in its order
    came = _PAUSED
    while came == _PAUSED:
        came = _loop(
            asked.table,
            asked.dependence_start,
            asked.dependence,
            asked.dependence_kind,
            figures,
            memory,
            state,
            banked,
            net,
            lines,
            unit,
            queue,
            order,
            place,
            stage,
            shared,
            retired,
            spans,
            met,
            by,
            waits,
            EVENTS,
        )
        if came == _PAUSED:
            watch.look(int(shared[_STARTED]), int(stage[:, _TIME].max()))
    if came == _STUCK:
        queues = [
            [int(queue[of, (row[_HEAD] + at) % len(queue[of])]) for at in range(row[_COUNT])]
            for of, row in enumerate(unit)
        ]
        raise deadlock(program, asked, spans, queues, int(figures[_WINDOW]), int(spans[:, DONE].max(initial=begin)))
    return spans, met


@compiled
def _loop(
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
    queue: I64,
    order: I32,
    place: I32,
    stage: I64,
    shared: I64,
    retired: I32,
    spans: I64,
    met: I64,
    by: I64,
    waits: I32,
    events: int,
) -> int:
    """Takes the earliest possible event until every instruction has started and every transfer has ended.

    Returns `_OVER` then, `_PAUSED` after so many events (a cycle of a banked memory counts as one), and `_STUCK` if no
    event is possible.
    """
    begin, units = shared[_BEGIN], len(unit) // len(stage)
    while shared[_STARTED] < len(table) or shared[_RUNNING] > 0:
        if events == 0:
            return _PAUSED
        events -= 1
        at, best, chosen, first = _NEVER, -1, -1, 0
        for number in range(len(unit)):
            if unit[number, _COUNT] == 0 or unit[number, _FREE] == _NEVER:
                continue
            head = queue[number, unit[number, _HEAD]]
            if unit[number, _READY] < 0:
                unit[number, _READY] = _ready(head, number, table, wait_start, wait, wait_kind, unit, spans, figures)
            time = unit[number, _READY]
            if time < 0:
                continue
            if table[head, REQUESTED] > 0:
                time = _granted(memory, state, lines, head, time)
            elif table[head, COMMON] > 0:
                time = dram.grant_common(memory, state, time)
            ready = unit[number, _READY]
            tie = best >= 0 and time == at
            if time < at or (tie and (ready < first or (ready == first and place[head] < place[best]))):
                at, best, chosen, first = time, head, number, ready
        issue, issuing = _NEVER, -1
        for core in range(len(stage)):
            time = _issue_time(table, figures, unit, order, stage[core], retired, spans, begin)
            if time < issue:
                issue, issuing = time, core
        if banked is not None:  # the compiler leaves this out where there are no banks
            before = dram.reached(state)
            source = dram.advance(memory, state, banked, net, min(issue, at)) if shared[_RUNNING] > 0 else -1
            events = max(0, events - (dram.reached(state) - before))
            if source == dram.ON_THE_WAY:
                continue
            if source >= 0:
                number = _unit_of(source, figures)
                _end(number, source, table, memory, banked, unit, shared, spans, waits)
                _retire(order, stage[number // units], retired, spans)
                continue
        if issuing >= 0 and issue <= at:
            _issue(issue, table, figures, unit, queue, order, stage[issuing], retired, spans, met, by, begin)
        elif best < 0:
            return _STUCK
        else:
            own = stage[chosen // units]
            _start(
                best,
                chosen,
                at,
                table,
                wait_start,
                wait,
                wait_kind,
                figures,
                memory,
                state,
                banked,
                net,
                lines,
                unit,
                shared,
                spans,
                met,
                by,
                waits,
            )
            _retire(order, own, retired, spans)
            unit[chosen, _HEAD] = (unit[chosen, _HEAD] + 1) % figures[_DEPTH]
            unit[chosen, _COUNT] -= 1
            unit[chosen, _READY] = -1
            own[_FREED], own[_FREED_BY] = at, best
            shared[_STARTED] += 1
    return _OVER


@compiled
def _ready(
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
    systolic = table[head, CLASS] == _SYSTOLIC
    waiting = systolic and not _goes_on(head, number, table, unit)
    time = max(spans[head, ISSUE], unit[number, _SHADOW] if waiting else unit[number, _FREE])
    for edge in range(wait_start[head], wait_start[head + 1]):
        source = wait[edge]
        if spans[source, ISSUE if wait_kind[edge] == MEET else DONE] < 0:
            return -1
        if wait_kind[edge] != _ACCUMULATE_KIND or table[head, CHAIN] != source:  # a chain's array is its order
            time = max(time, _met_at(edge, head, table, wait, wait_kind, spans))
    return time


@compiled
def _goes_on(row: int, number: int, table: I64, unit: I64) -> bool:
    """Whether a matmul's sums still lie in its array."""
    return bool(table[row, MARK] == KEEPS and table[row, CHAIN] >= 0 and table[row, CHAIN] == unit[number, _LATEST])


@compiled
def _met_at(edge: int, row: int, table: I64, wait: I32, wait_kind: U8, spans: I64) -> int:
    """When a dependence on an instruction whose end is known is met: at its end if it need not be complete."""
    source, kind = wait[edge], wait_kind[edge]
    if kind == MEET:
        return spans[source, ISSUE]
    if kind == _AFTER_READ_KIND or (kind == _ACCUMULATE_KIND and table[row, CHAIN] == source):
        return spans[source, END]
    return spans[source, DONE]


@compiled
def _queue_for(table: I64, figures: I64, unit: I64, row: int, turn: int, spans: I64, now: int) -> int:
    """The unit whose queue an instruction goes into, -1 while there is no room."""
    queues, arrays, depth = figures[_QUEUES], figures[_ARRAYS], figures[_DEPTH]
    base = table[row, CORE] * (queues + arrays + 2)
    first, last = base + queues + arrays, base + queues + arrays + 1
    if table[row, CLASS] == _DMA:
        first, last = base, base + queues
    elif table[row, CLASS] == _SYSTOLIC:
        first, last = base + queues, base + queues + arrays
        if table[row, CHAIN] >= 0:
            first = spans[table[row, CHAIN], UNIT]
            last = first + 1
        elif figures[_IN_TURN] == 1:
            first += turn
            last = first + 1
    elif table[row, CLASS] == _SCALAR:
        first, last = last, last + 1
    best, least = -1, _NEVER
    for number in range(first, last):
        if unit[number, _COUNT] == depth:
            continue
        ahead = 2 * unit[number, _COUNT] + (1 if unit[number, _FREE] > now else 0)
        if table[row, CLASS] == _SYSTOLIC:
            ahead = max(unit[number, _FREE], now) + unit[number, _BACKLOG]
        if ahead < least:
            best, least = number, ahead
    return best


@compiled
def _issue_time(
    table: I64, figures: I64, unit: I64, order: I32, stage: I64, retired: I32, spans: I64, begin: int
) -> int:
    """When a core's next instruction could be issued, `_NEVER` while something else must happen first."""
    index, base = stage[_NEXT], stage[_BASE]
    if index >= stage[_LENGTH]:
        return _NEVER
    row = int(order[base + index])
    time = begin if index == 0 else stage[_TIME] + figures[_INTERVAL]
    needed = _needed(table, figures, row, index)
    if needed > 0:
        if stage[_RETIRED] < needed:
            return _NEVER
        time = max(time, spans[retired[base + needed - 1], DONE])
    if index > 0 and table[order[base + index - 1], MARK] == MEETS:
        met = order[base + index - 1]
        if spans[met, DONE] < 0:
            return _NEVER
        time = max(time, spans[met, DONE])
    if _queue_for(table, figures, unit, row, stage[_TURN], spans, time) < 0:
        stage[_BLOCKED] = 1
        return _NEVER
    if stage[_BLOCKED] == 1:
        time = max(time, stage[_FREED])
    return time


@compiled
def _needed(table: I64, figures: I64, row: int, index: int) -> int:
    """How many of its core's instructions must be complete before one is issued: of a BARRIER all before it."""
    return index if table[row, MARK] == MEETS else index - figures[_WINDOW] + 1


@compiled
def _issue(
    time: int,
    table: I64,
    figures: I64,
    unit: I64,
    queue: I64,
    order: I32,
    stage: I64,
    retired: I32,
    spans: I64,
    met: I64,
    by: I64,
    begin: int,
) -> None:
    """Issues a core's next instruction, and notes what its issue waited for."""
    index, base = stage[_NEXT], stage[_BASE]
    row = int(order[base + index])
    needed = _needed(table, figures, row, index)
    met[row, _AT_LAUNCH], by[_AT_LAUNCH] = begin, -1
    if index > 0:
        before = order[base + index - 1]
        met[row, _AT_ISSUE], by[_AT_ISSUE] = stage[_TIME] + figures[_INTERVAL], before
        if table[before, MARK] == MEETS:
            met[row, _AT_BARRIER], by[_AT_BARRIER] = spans[before, DONE], before
    if needed > 0:
        column = _AT_BARRIER if table[row, MARK] == MEETS else _AT_WINDOW
        latest = retired[base + needed - 1]
        if spans[latest, DONE] > met[row, column]:
            met[row, column], by[column] = spans[latest, DONE], latest
    if stage[_BLOCKED] == 1:
        met[row, _AT_QUEUE], by[_AT_QUEUE] = stage[_FREED], stage[_FREED_BY]
    cause = _AT_LAUNCH
    for candidate in range(_AT_QUEUE + 1):
        if met[row, candidate] >= met[row, cause]:
            cause = candidate
    if met[row, _AT_BARRIER] >= met[row, cause]:
        cause = _AT_BARRIER
    number = _queue_for(table, figures, unit, row, stage[_TURN], spans, time)
    if table[row, CLASS] == _SYSTOLIC and table[row, CHAIN] < 0:
        stage[_TURN] = (stage[_TURN] + 1) % figures[_ARRAYS]
    place = (unit[number, _HEAD] + unit[number, _COUNT]) % figures[_DEPTH]
    queue[number, place] = row
    unit[number, _COUNT] += 1
    unit[number, _BACKLOG] += table[row, CYCLES]
    spans[row, UNIT], spans[row, ISSUE] = number, time
    spans[row, ISSUE_CAUSE], spans[row, ISSUE_BLOCKER] = cause, by[cause]
    stage[_NEXT], stage[_TIME], stage[_BLOCKED] = index + 1, time, 0


@compiled_apart
def _start(
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
    if unit[number, _LATEST] >= 0:
        free = unit[number, _FREE]
        if table[row, CLASS] == _SYSTOLIC and not _goes_on(row, number, table, unit):
            free = max(free, unit[number, _SHADOW])
        met[row, _AT_UNIT], by[_AT_UNIT] = free, unit[number, _LATEST]
    if table[row, REQUESTED] > 0:
        user = shared[_BUS_USER]
        if lines is not None:
            user = buses.granted_last(lines, row)
        if user >= 0:
            met[row, _AT_BANDWIDTH], by[_AT_BANDWIDTH] = _granted(memory, state, lines, row, 0), user
    if table[row, COMMON] > 0 and shared[_COMMON_USER] >= 0:
        met[row, _AT_COMMON], by[_AT_COMMON] = dram.grant_common(memory, state, 0), shared[_COMMON_USER]
    for edge in range(wait_start[row], wait_start[row + 1]):
        source, kind = wait[edge], int(wait_kind[edge])
        cause = _CAUSE_OF_KIND[kind]
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
    if table[row, CLASS] == _SYSTOLIC:
        _stream(row, number, at, table, unit, spans)
    elif table[row, REQUESTED] > 0:
        if banked is not None:
            dram.begin_transfer(memory, state, banked, net, _source_of(number, figures), row, at)
            shared[_RUNNING] += 1
            spans[row, END] = _NEVER
        else:
            if lines is None:
                sent = dram.serve(memory, state, at, table[row, REQUESTED])
            else:
                sent, least = buses.serve(lines, row, at), at + table[row, CYCLES]
                behind = max(sent, least) - max(buses.alone(lines, row, at), least)
                waits[row, _MEMORY_BUS] = min(behind, _MOST_WAITED)
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
                waits[row, _INTERCONNECT] = min(spans[row, END] - over, _MOST_WAITED)
            spans[row, DONE] = spans[row, END]
            shared[_BUS_USER] = row
    elif table[row, COMMON] > 0:
        sent = dram.serve_common(memory, state, at, table[row, COMMON])
        spans[row, PHASE] = max(sent, at + table[row, CYCLES])
        spans[row, END] = spans[row, DONE] = spans[row, PHASE] + dram.common_latency(memory)
        shared[_COMMON_USER] = row
    else:
        spans[row, PHASE] = at + table[row, CYCLES]
        spans[row, END] = spans[row, DONE] = spans[row, PHASE] + table[row, WAITING]
    unit[number, _FREE], unit[number, _LATEST] = spans[row, END], row
    unit[number, _BACKLOG] -= table[row, CYCLES]


@compiled
def _granted(memory: I64, state: I64, lines: Buses | None, row: int, ready: int) -> int:
    """The first cycle, not before `ready`, at which a transfer may begin."""
    if lines is None:
        return dram.grant(memory, state, ready)
    return buses.grant(lines, row, ready)


@compiled
def _source_of(number: int, figures: I64) -> int:
    """What a unit is to a banked memory: each core has its DMA queues there, and its scalar unit."""
    units = figures[_QUEUES] + figures[_ARRAYS] + 2
    return number // units * (figures[_QUEUES] + 1) + min(number % units, figures[_QUEUES])


@compiled
def _unit_of(source: int, figures: I64) -> int:
    """The unit that is this to a banked memory."""
    units, asking = figures[_QUEUES] + figures[_ARRAYS] + 2, figures[_QUEUES] + 1
    own = source % asking
    return source // asking * units + (own if own < figures[_QUEUES] else units - 1)


@compiled
def _end(
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
    row = unit[number, _LATEST]
    least, ended = spans[row, START] + table[row, CYCLES], dram.ended(memory, banked, source)
    spans[row, PHASE] = max(ended, least + dram.way(memory))
    spans[row, END] = spans[row, DONE] = max(spans[row, PHASE], least + table[row, WAITING])
    dram.waited(memory, banked, source, waits[row], spans[row, END] == ended)
    unit[number, _FREE] = spans[row, END]
    shared[_RUNNING] -= 1


@compiled
def _stream(row: int, number: int, preload: int, table: I64, unit: I64, spans: I64) -> None:
    """A matmul whose preload begins at `preload`: it streams once its weights are in and its array has room."""
    moved_in = 0 if _goes_on(row, number, table, unit) else table[row, PRELOAD]
    stream = max(preload + moved_in, spans[row, START])
    spans[row, PHASE] = stream
    spans[row, END] = stream + table[row, CYCLES]
    spans[row, DONE] = spans[row, END] + table[row, DRAIN]
    room = spans[row, END] - table[row, LAST]
    unit[number, _SHADOW] = max(unit[number, _SHADOW], room)  # what is left out frees nothing sooner than what was not


@compiled
def _retire(order: I32, stage: I64, retired: I32, spans: I64) -> None:
    """Moves past a core's oldest instructions whose completion is known."""
    done, base = stage[_RETIRED], stage[_BASE]
    while done < stage[_LENGTH] and spans[order[base + done], DONE] >= 0:
        row = order[base + done]
        later = done > 0 and spans[retired[base + done - 1], DONE] > spans[row, DONE]
        retired[base + done] = retired[base + done - 1] if later else row
        done += 1
    stage[_RETIRED] = done
