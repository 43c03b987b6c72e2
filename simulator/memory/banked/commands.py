"""Which commands a channel's controller gives in a cycle: see controller.py for the rules."""

from __future__ import annotations

from simulator.compiled import compiled, compiled_apart
from simulator.memory.banked import channel_time
from simulator.memory.banked.banks import (
    ACT,
    BANKS,
    BUSES,
    COLUMN,
    PRE,
    PSEUDOS,
    RD,
    READ_DATA,
    REFRESH_INTERVAL,
    REFRESHED,
    activate,
    all_closed,
    first_cycle,
    first_cycle_of_all,
    give_column,
    is_fresh,
    mark_fresh,
    precharge,
    precharge_all,
    refresh_all,
    waits_for,
)
from simulator.memory.banked.channels import (
    ACTIVATES,
    ARRIVAL,
    BANK,
    COUNT,
    DRAINS,
    EARLY,
    ENTRIES,
    FIRST,
    HIGH,
    LOW,
    NEVER,
    NEXT_REFRESH,
    OPENING,
    OWNER,
    READ_CYCLES,
    READS,
    REFRESHES,
    REFRESHING,
    REMAINING,
    REQUEST,
    ROW_CONFLICTS,
    ROW_HITS,
    ROW_MISSES,
    RUNS,
    UNNOTED,
    WRITES,
    Channel,
)
from simulator.memory.banked.request_queues import (
    append,
    asks_for,
    command_of,
    first_of,
    forget,
    free,
    queued,
    take,
    waited_for,
)
from simulator.memory.banked.request_sources import done


@compiled
def turn(of: Channel) -> bool:
    """Turns from reads to writes or back if it is time to, and says whether it did."""
    reads, writes = of.clock[COUNT + READS], of.clock[COUNT + WRITES]
    if of.clock[DRAINS] == 1:
        turns = writes < of.figures[LOW] and reads != 0
    else:
        turns = writes > of.figures[HIGH] or reads == 0
    if turns:
        of.clock[DRAINS] = 1 - of.clock[DRAINS]
    return turns


@compiled
def schedule(of: Channel, now: int) -> int:
    """Gives the commands of a cycle; returns the next cycle at which there may be one to give."""
    turn(of)
    column, column_list, row, row_list, wake = _choose(of, now, False)
    if column >= 0:
        waiting = of.lists[row_list, FIRST, row] if row >= 0 else -1
        _give_column(of, now, column_list, column)
        if row > 0 and of.lists[row_list, FIRST, row - 1] == waiting:
            row -= 1  # the column's run stood before it
        if row >= 0:
            request = first_of(of, row_list, row)
            if first_cycle(of.figures, of.gates, request, command_of(of, row_list, row)) > now:
                # the data is of the row that would be closed
                _, _, row, row_list, _ = _choose(of, now, True)
        wake = now + 1
    if row >= 0:
        if _give_row(of, now, row_list, row):
            wake = now + 1
    elif of.clock[REFRESHING] > 0 and (column < 0 or of.figures[BUSES] == 2):
        wake = min(wake, _refresh(of, now))
    if of.clock[channel_time.MOVING] < wake:
        channel_time.enter(of.clock, state(of, now), now)
    return wake


@compiled_apart
def state(of: Channel, now: int) -> int:
    """The state of a channel from now on, while no data moves."""
    if queued(of) == 0:
        return channel_time.IDLE
    if of.clock[REFRESHING] > 0 and of.figures[REFRESHED] > 1:
        return channel_time.REFRESH
    which = OPENING if of.clock[COUNT + OPENING] > 0 else of.clock[DRAINS]
    if of.clock[COUNT + which] == 0:
        which = 1 - which
    if of.clock[REFRESHING] > 0 and of.lists[which, BANK, 0] == _due(of):
        return channel_time.REFRESH
    return waits_for(of.figures, of.gates, first_of(of, which, 0), now)


@compiled
def _choose(of: Channel, now: int, rows_only: bool) -> tuple[int, int, int, int, int]:
    """The runs whose column command and whose row command come first, and the next cycle at which another could."""
    column, column_list, row, row_list, wake = -1, -1, -1, -1, NEVER
    single, stopped = of.figures[BUSES] == 1, of.clock[REFRESHING] > 0 and of.figures[REFRESHED] > 1
    due = _due(of) if of.clock[REFRESHING] > 0 else -1
    for each in range(1 if stopped else 2):
        which = of.clock[DRAINS] if each == 1 else OPENING
        for run in range(of.clock[RUNS + which]):
            command, early = command_of(of, which, run), of.lists[which, EARLY, run]
            if (row >= 0) if command < RD else (column >= 0 or rows_only):
                continue
            if early > now and (early >= wake or column >= 0):
                continue  # it can come neither now nor sooner than others
            if which != OPENING and of.lists[which, BANK, run] == due:
                continue
            time = first_cycle(of.figures, of.gates, first_of(of, which, run), command)
            of.lists[which, EARLY, run] = time
            if time > now:
                wake = min(wake, time)
                continue
            if command < RD:
                row, row_list = run, which
            else:
                column, column_list = run, which
            if single or (row >= 0 and (column >= 0 or rows_only)):
                return column, column_list, row, row_list, wake
    return column, column_list, row, row_list, wake


@compiled
def _give_column(of: Channel, now: int, which: int, run: int) -> None:
    """Moves the data of a run's first request, which leaves its list."""
    entry = take(of, which, run)
    request, owner = of.entries[entry, REQUEST], of.entries[entry, OWNER]
    source = owner >> 1
    give_column(of.figures, of.gates, request, now)
    if owner & 1 == 0:
        of.counters[ROW_HITS] += 1
    if request & 1 == READS:
        answered = now + of.figures[READ_DATA]
        of.counters[READ_CYCLES] += answered - of.entries[entry, ARRIVAL]
        done(of, source, now, answered)
    own = of.parts[source, REMAINING] > 0 and of.parts[source, UNNOTED] == 0
    channel_time.move(of.parts[source], of.clock, now, of.figures[COLUMN], own)
    free(of, entry)


@compiled
def _give_row(of: Channel, now: int, which: int, run: int) -> bool:
    """Closes or opens a row for a run's first request, unless a listed request waits for the row it would close."""
    entry = of.lists[which, FIRST, run]
    request = of.entries[entry, REQUEST]
    bank, command = of.lists[which, BANK, run], command_of(of, which, run)
    if command == PRE and asks_for(of, OPENING, bank, bank + 1):
        return False
    if of.entries[entry, OWNER] & 1 == 0:
        of.entries[entry, OWNER] += 1
        of.counters[ROW_CONFLICTS if command == PRE else ROW_MISSES] += 1
    if command == PRE:
        precharge(of.figures, of.gates, bank, now)
        forget(of, bank, bank + 1)
        return True
    of.counters[ACTIVATES] += 1
    activate(of.figures, of.gates, request, now)
    forget(of, bank, bank + 1)
    if which != OPENING and of.clock[COUNT + OPENING] < of.figures[ENTRIES]:
        append(of, OPENING, take(of, which, run))
    return True


@compiled_apart
def _due(of: Channel) -> int:
    """The first of the banks to refresh next: of those left in a round, one that no request waits for."""
    first = (of.figures[PSEUDOS] - of.clock[REFRESHING]) % of.figures[PSEUDOS] * of.figures[BANKS]
    return first if of.figures[REFRESHED] > 1 else _next_of_round(of, first)


@compiled
def _next_of_round(of: Channel, first: int) -> int:
    """The bank of a pseudo-channel, whose first is given, that is refreshed next by itself."""
    due = -1
    for bank in range(first, first + of.figures[BANKS]):
        if not is_fresh(of.gates, bank):
            if not waited_for(of, bank):
                return bank
            due = bank if due < 0 else due
    return due


@compiled_apart
def _refresh(of: Channel, now: int) -> int:
    """Closes the rows of the banks whose refresh is due, or refreshes them; the next cycle to look again."""
    first = _due(of)
    last = first + of.figures[REFRESHED]
    if asks_for(of, OPENING, first, last):
        return NEVER  # its data comes first
    closed = all_closed(of.gates, first, last)
    time = first_cycle_of_all(of.figures, of.gates, first, last, ACT if closed else PRE)
    if time > now:
        return time
    if closed:
        refresh_all(of.figures, of.gates, first, last, now)
        of.clock[REFRESHING] -= 1
        of.counters[REFRESHES] += 1
    else:
        precharge_all(of.figures, of.gates, first, last, now)
        forget(of, first, last)
    return now + 1


@compiled_apart
def skip_refreshes(of: Channel, until: int) -> None:
    """Does at once all refreshes before a cycle but the last, for an idle channel with all rows closed."""
    if of.clock[REFRESHING] > 0:
        return
    if not all_closed(of.gates, 0, of.figures[PSEUDOS] * of.figures[BANKS]):
        return
    skipped = max(0, (until - of.clock[NEXT_REFRESH]) // of.figures[REFRESH_INTERVAL])
    of.clock[NEXT_REFRESH] += skipped * of.figures[REFRESH_INTERVAL]
    if of.figures[REFRESHED] == 1:
        for pseudo in range(of.figures[PSEUDOS]):
            for _ in range(skipped % of.figures[BANKS]):
                bank = _next_of_round(of, pseudo * of.figures[BANKS])
                mark_fresh(of.figures, of.gates, bank)  # and that was long ago
    of.counters[REFRESHES] += skipped * of.figures[PSEUDOS]
