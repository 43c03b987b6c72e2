"""The time of a DRAM channel by state, and the part of this time in which each transfer waited.

In every cycle a channel is in one state: data of some request moves; or its queues are empty; or a refresh is due or
under way; or the oldest request that may be served waits: for its row to be closed or opened, for the bus to turn
between writes and reads, for its bank group, or for the command bus. A state lasts from one look of the controller to
the next. Cycles in which requests stand before a full queue are counted separately.

A transfer ends in a channel with the last of its requests there, and ends when its last channel does. Its waits are
this channel's cycles by state while the channel held requests of the transfer, without the cycles in which the
transfer's own data moved. In the rest of the time its requests were on their way.
"""

from __future__ import annotations

from simulator.compiled import compiled
from simulator.tileprogram.program import I64

# Fields of a channel: cycles in each state; cycles in which requests stood before a full queue; the cycle up to which
# cycles are counted; the state since then; the cycle until which data moves; the number of transfers without a request
# in the channel yet
TRANSFER, ROW, GROUP, TURN, REFRESH, COMMAND, IDLE, STATES = 0, 1, 2, 3, 4, 5, 6, 7
FULL, COUNTED, SINCE, STATE, MOVING, NOT_NOTED, SPENT = 7, 8, 8, 9, 10, 11, 12

# Fields of a source in a channel: cycles in each state while the channel held requests of its transfer, and cycles in
# which its own data moved
OWN, NOTES = STATES, STATES + 1


@compiled
def pass_time(spent: I64, now: int) -> None:
    """Counts a channel's cycles by state up to cycle `now`."""
    moving = min(max(spent[MOVING], spent[SINCE]), now)
    spent[TRANSFER] += moving - spent[SINCE]
    spent[spent[STATE]] += now - moving
    spent[SINCE] = now


@compiled
def enter(spent: I64, state: int, now: int) -> None:
    """Puts a channel into a state in which no data moves."""
    if spent[STATE] != state:
        pass_time(spent, now)
        spent[STATE] = state


@compiled
def _note(notes: I64, spent: I64, at: int, sign: int) -> None:
    """Adds a channel's cycles by state up to cycle `at`, times `sign`, to a source's notes."""
    for state in range(STATES):
        notes[state] += sign * spent[state]
    moving = min(max(spent[MOVING], spent[SINCE]), at)
    notes[TRANSFER] += sign * (moving - spent[SINCE])
    notes[spent[STATE]] += sign * (at - moving)


@compiled
def begin(notes: I64, spent: I64, at: int) -> None:
    """Subtracts a channel's counts when the first request of a transfer arrives there, or the next after a pause."""
    _note(notes, spent, at, -1)
    spent[NOT_NOTED] -= 1


@compiled
def pause(notes: I64, spent: I64, at: int) -> None:
    """Adds a channel's counts when all remaining requests of a transfer are still on their way."""
    _note(notes, spent, at, 1)
    spent[NOT_NOTED] += 1


@compiled
def end(notes: I64, spent: I64, at: int) -> None:
    """Adds a channel's counts when a transfer's last request is done, without the cycles of the transfer's own data."""
    _note(notes, spent, at, 1)
    notes[TRANSFER] = max(0, notes[TRANSFER] - notes[OWN])


@compiled
def move(notes: I64, spent: I64, now: int, length: int, own: bool) -> None:
    """Lets data move for `length` cycles from now on; if `own`, counts its new cycles for the source."""
    if spent[MOVING] < now:
        pass_time(spent, now)
        spent[MOVING] = now
    if own:
        notes[OWN] += max(0, now + length - spent[MOVING])
    spent[MOVING] = max(spent[MOVING], now + length)
