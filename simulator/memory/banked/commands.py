"""The commands that a channel's controller gives in a cycle, by the rules in controller.py."""

from __future__ import annotations

from simulator.compiled import compiled, compiled_apart
from simulator.memory.banked import banks, channel_time
from simulator.memory.banked import request_queues as queues
from simulator.memory.banked.banks import ACT, PRE, RD
from simulator.memory.banked.channels import Channel
from simulator.memory.banked.fields import NEVER, OPENING, READS, WRITES, Clock, Counter, Entry, Part, Run, Setting
from simulator.memory.banked.request_sources import done


@compiled
def turn(of: Channel) -> bool:
    """Turns from reads to writes or back if that is due; returns True if it turned."""
    reads, writes = of.clock[Clock.COUNT + READS], of.clock[Clock.COUNT + WRITES]
    if of.clock[Clock.DRAINS] == 1:
        turns = writes < of.figures[Setting.LOW] and reads != 0
    else:
        turns = writes > of.figures[Setting.HIGH] or reads == 0
    if turns:
        of.clock[Clock.DRAINS] = 1 - of.clock[Clock.DRAINS]
    return turns


@compiled
def schedule(of: Channel, now: int) -> int:
    """Gives the commands of a cycle; returns the next cycle in which a command may be possible."""
    turn(of)
    column, column_list, row, row_list, wake = _choose(of, now, False)
    if column >= 0:
        waiting = of.lists[row_list, Run.FIRST, row] if row >= 0 else -1
        _give_column(of, now, column_list, column)
        if row > 0 and of.lists[row_list, Run.FIRST, row - 1] == waiting:
            row -= 1  # the run of the column left the list
        if row >= 0:
            request = queues.first_of(of, row_list, row)
            if banks.first_cycle(of.figures, of.gates, request, queues.command_of(of, row_list, row)) > now:
                # the data is of the row that would be closed
                _, _, row, row_list, _ = _choose(of, now, True)
        wake = now + 1
    if row >= 0:
        if _give_row(of, now, row_list, row):
            wake = now + 1
    elif of.clock[Clock.REFRESHING] > 0 and (column < 0 or of.figures[banks.BUSES] == 2):
        wake = min(wake, _refresh(of, now))
    if of.clock[channel_time.MOVING] < wake:
        channel_time.enter(of.clock, state(of, now), now)
    return wake


@compiled_apart
def state(of: Channel, now: int) -> int:
    """The state of a channel from now on, while no data moves."""
    if queues.queued(of) == 0:
        return channel_time.IDLE
    if of.clock[Clock.REFRESHING] > 0 and of.figures[banks.REFRESHED] > 1:
        return channel_time.REFRESH
    which = OPENING if of.clock[Clock.COUNT + OPENING] > 0 else of.clock[Clock.DRAINS]
    if of.clock[Clock.COUNT + which] == 0:
        which = 1 - which
    if of.clock[Clock.REFRESHING] > 0 and of.lists[which, Run.BANK, 0] == _due(of):
        return channel_time.REFRESH
    return banks.waits_for(of.figures, of.gates, queues.first_of(of, which, 0), now)


@compiled
def _choose(of: Channel, now: int, rows_only: bool) -> tuple[int, int, int, int, int]:
    """The first run whose column command, and the first whose row command, can be given now, each with its list; and
    the next cycle in which another command could be given. -1 stands for no run."""
    column, column_list, row, row_list, wake = -1, -1, -1, -1, NEVER
    single, stopped = of.figures[banks.BUSES] == 1, of.clock[Clock.REFRESHING] > 0 and of.figures[banks.REFRESHED] > 1
    due = _due(of) if of.clock[Clock.REFRESHING] > 0 else -1
    for each in range(1 if stopped else 2):
        which = of.clock[Clock.DRAINS] if each == 1 else OPENING
        for run in range(of.clock[Clock.RUNS + which]):
            command, early = queues.command_of(of, which, run), of.lists[which, Run.EARLY, run]
            if (row >= 0) if command < RD else (column >= 0 or rows_only):
                continue
            if early > now and (early >= wake or column >= 0):
                continue  # its command is possible neither now nor before others
            if which != OPENING and of.lists[which, Run.BANK, run] == due:
                continue
            time = banks.first_cycle(of.figures, of.gates, queues.first_of(of, which, run), command)
            of.lists[which, Run.EARLY, run] = time
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
    entry = queues.take(of, which, run)
    request, owner = of.entries[entry, Entry.REQUEST], of.entries[entry, Entry.OWNER]
    source = owner >> 1
    banks.give_column(of.figures, of.gates, request, now)
    if owner & 1 == 0:
        of.counters[Counter.ROW_HITS] += 1
    if request & 1 == READS:
        answered = now + of.figures[banks.READ_DATA]
        of.counters[Counter.READ_CYCLES] += answered - of.entries[entry, Entry.ARRIVAL]
        done(of, source, now, answered)
    own = of.parts[source, Part.REMAINING] > 0 and of.parts[source, Part.UNNOTED] == 0
    channel_time.move(of.parts[source], of.clock, now, of.figures[banks.COLUMN], own)
    queues.free(of, entry)


@compiled
def _give_row(of: Channel, now: int, which: int, run: int) -> bool:
    """Closes or opens a row for a run's first request; returns False if a listed request needs the row to close."""
    entry = of.lists[which, Run.FIRST, run]
    request = of.entries[entry, Entry.REQUEST]
    bank, command = of.lists[which, Run.BANK, run], queues.command_of(of, which, run)
    if command == PRE and queues.asks_for(of, OPENING, bank, bank + 1):
        return False
    if of.entries[entry, Entry.OWNER] & 1 == 0:
        of.entries[entry, Entry.OWNER] += 1
        of.counters[Counter.ROW_CONFLICTS if command == PRE else Counter.ROW_MISSES] += 1
    if command == PRE:
        banks.precharge(of.figures, of.gates, bank, now)
        queues.forget(of, bank, bank + 1)
        return True
    of.counters[Counter.ACTIVATES] += 1
    banks.activate(of.figures, of.gates, request, now)
    queues.forget(of, bank, bank + 1)
    if which != OPENING and of.clock[Clock.COUNT + OPENING] < of.figures[Setting.ENTRIES]:
        queues.append(of, OPENING, queues.take(of, which, run))
    return True


@compiled_apart
def _due(of: Channel) -> int:
    """The first of the banks to refresh next; one by one, a bank that no request waits for is preferred."""
    first = (
        (of.figures[banks.PSEUDOS] - of.clock[Clock.REFRESHING]) % of.figures[banks.PSEUDOS] * of.figures[banks.BANKS]
    )
    return first if of.figures[banks.REFRESHED] > 1 else _next_of_round(of, first)


@compiled
def _next_of_round(of: Channel, first: int) -> int:
    """The bank to refresh next by itself, in the pseudo-channel whose first bank is `first`."""
    due = -1
    for bank in range(first, first + of.figures[banks.BANKS]):
        if not banks.is_fresh(of.gates, bank):
            if not queues.waited_for(of, bank):
                return bank
            due = bank if due < 0 else due
    return due


@compiled_apart
def _refresh(of: Channel, now: int) -> int:
    """Closes the rows of the banks whose refresh is due, or refreshes the banks; returns the next cycle to look."""
    first = _due(of)
    last = first + of.figures[banks.REFRESHED]
    if queues.asks_for(of, OPENING, first, last):
        return NEVER  # its data comes first
    closed = banks.all_closed(of.gates, first, last)
    time = banks.first_cycle_of_all(of.figures, of.gates, first, last, ACT if closed else PRE)
    if time > now:
        return time
    if closed:
        banks.refresh_all(of.figures, of.gates, first, last, now)
        of.clock[Clock.REFRESHING] -= 1
        of.counters[Counter.REFRESHES] += 1
    else:
        for bank in range(first, last):
            banks.precharge(of.figures, of.gates, bank, now)
        queues.forget(of, first, last)
    return now + 1


@compiled_apart
def skip_refreshes(of: Channel, until: int) -> None:
    """Does at once all refreshes before a cycle except the last, for an idle channel with all rows closed."""
    if of.clock[Clock.REFRESHING] > 0:
        return
    if not banks.all_closed(of.gates, 0, of.figures[banks.PSEUDOS] * of.figures[banks.BANKS]):
        return
    skipped = max(0, (until - of.clock[Clock.NEXT_REFRESH]) // of.figures[banks.REFRESH_INTERVAL])
    of.clock[Clock.NEXT_REFRESH] += skipped * of.figures[banks.REFRESH_INTERVAL]
    if of.figures[banks.REFRESHED] == 1:
        for pseudo in range(of.figures[banks.PSEUDOS]):
            for _ in range(skipped % of.figures[banks.BANKS]):
                bank = _next_of_round(of, pseudo * of.figures[banks.BANKS])
                banks.mark_fresh(of.figures, of.gates, bank)  # refreshed long ago
    of.counters[Counter.REFRESHES] += skipped * of.figures[banks.PSEUDOS]
