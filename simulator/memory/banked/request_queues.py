"""The lists of a channel's controller: requests in the order in which they came.

Requests for one row, in one direction, are a run. All requests of a run need the same command next, so the controller
looks at runs, in the order of their first requests, and only a run's first request leaves its list. Streams that run at
once are separate runs.
"""

from __future__ import annotations

from simulator.compiled import compiled, compiled_apart
from simulator.memory.banked.banks import ALIKE, bank_of, next_command
from simulator.memory.banked.channels import Channel
from simulator.memory.banked.fields import LISTS, OPENING, READS, WRITES, Clock, Entry, Run


@compiled
def queued(of: Channel) -> int:
    """The number of requests in all lists."""
    return of.clock[Clock.COUNT + READS] + of.clock[Clock.COUNT + WRITES] + of.clock[Clock.COUNT + OPENING]


@compiled
def first_of(of: Channel, which: int, run: int) -> int:
    """The first request of a run of a list."""
    return of.entries[of.lists[which, Run.FIRST, run], Entry.REQUEST]


@compiled
def put(of: Channel, which: int, request: int, source: int, now: int) -> None:
    """Puts a request at the end of a list."""
    entry = of.clock[Clock.FREE]
    of.clock[Clock.FREE] = of.entries[entry, Entry.NEXT]
    of.entries[entry, Entry.REQUEST], of.entries[entry, Entry.OWNER] = request, source * 2
    of.entries[entry, Entry.ARRIVAL] = now
    append(of, which, entry)


@compiled
def append(of: Channel, which: int, entry: int) -> None:
    """Appends an entry to a list."""
    request, runs = of.entries[entry, Entry.REQUEST], of.clock[Clock.RUNS + which]
    of.entries[entry, Entry.NEXT] = -1
    of.clock[Clock.COUNT + which] += 1
    for run in range(runs - 1, -1, -1):
        first = of.lists[which, Run.FIRST, run]
        if (of.entries[first, Entry.REQUEST] ^ request) & of.figures[ALIKE] == 0:
            of.entries[of.entries[first, Entry.RUN_END], Entry.NEXT] = entry
            of.entries[first, Entry.RUN_END] = entry
            return
    of.entries[entry, Entry.RUN_END] = entry
    of.lists[which, Run.FIRST, runs] = entry
    of.lists[which, Run.BANK, runs] = bank_of(of.figures, request)
    of.lists[which, Run.COMMAND, runs], of.lists[which, Run.EARLY, runs] = -1, 0
    of.clock[Clock.RUNS + which] += 1


@compiled
def take(of: Channel, which: int, run: int) -> int:
    """Takes the first entry of a run out of its list; moves the run to the place of its next entry's arrival."""
    entries, runs, last = of.entries, of.lists[which], of.clock[Clock.RUNS + which] - 1
    entry = runs[Run.FIRST, run]
    following = entries[entry, Entry.NEXT]
    of.clock[Clock.COUNT + which] -= 1
    if following < 0:
        _move_up(of, which, run, last)
        of.clock[Clock.RUNS + which] = last
        return entry
    entries[following, Entry.RUN_END] = entries[entry, Entry.RUN_END]
    runs[Run.FIRST, run] = following
    place = run
    while place < last and entries[runs[Run.FIRST, place + 1], Entry.ARRIVAL] < entries[following, Entry.ARRIVAL]:
        place += 1
    if place > run:
        bank, command, early = runs[Run.BANK, run], runs[Run.COMMAND, run], runs[Run.EARLY, run]
        _move_up(of, which, run, place)
        runs[Run.FIRST, place], runs[Run.BANK, place] = following, bank
        runs[Run.COMMAND, place], runs[Run.EARLY, place] = command, early
    return entry


@compiled
def _move_up(of: Channel, which: int, run: int, last: int) -> None:
    """Moves the runs after `run`, up to `last`, each to the place before its own."""
    for at in range(run, last):
        for field in range(of.lists.shape[1]):
            of.lists[which, field, at] = of.lists[which, field, at + 1]


@compiled
def free(of: Channel, entry: int) -> None:
    """Frees an entry that has left its list."""
    of.entries[entry, Entry.NEXT] = of.clock[Clock.FREE]
    of.clock[Clock.FREE] = entry


@compiled
def is_written(of: Channel, request: int) -> bool:
    """True if a write to the place that `request` reads is queued."""
    for run in range(of.clock[Clock.RUNS + WRITES]):
        entry = of.lists[WRITES, Run.FIRST, run]
        if (of.entries[entry, Entry.REQUEST] ^ (request + 1)) & of.figures[ALIKE] == 0:
            while entry >= 0:
                if of.entries[entry, Entry.REQUEST] == request + 1:
                    return True
                entry = of.entries[entry, Entry.NEXT]
    return False


@compiled
def asks_for(of: Channel, which: int, first: int, last: int) -> bool:
    """True if a request of a list is for one of some banks."""
    for run in range(of.clock[Clock.RUNS + which]):  # noqa: SIM110
        if first <= of.lists[which, Run.BANK, run] < last:
            return True
    return False


@compiled
def waited_for(of: Channel, bank: int) -> bool:
    """True if any request is for a bank."""
    for which in range(LISTS):  # noqa: SIM110
        if asks_for(of, which, bank, bank + 1):
            return True
    return False


@compiled
def command_of(of: Channel, which: int, run: int) -> int:
    """The next command of a run: looked up once, and again after a row of its bank has been opened or closed."""
    command = of.lists[which, Run.COMMAND, run]
    if command < 0:
        command = next_command(of.figures, of.gates, first_of(of, which, run))
        of.lists[which, Run.COMMAND, run] = command
    return command


@compiled_apart
def forget(of: Channel, first: int, last: int) -> None:
    """Forgets the next commands of runs for banks `first` up to `last`, whose rows have been opened or closed."""
    for which in range(LISTS):
        for run in range(of.clock[Clock.RUNS + which]):
            if first <= of.lists[which, Run.BANK, run] < last:
                of.lists[which, Run.COMMAND, run], of.lists[which, Run.EARLY, run] = -1, 0
