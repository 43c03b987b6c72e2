"""What a DRAM channel does with its time, and what of that each transfer waited for.

Every cycle of a channel is of one state. Data of some request moves; or nothing is queued; or a refresh is due or under
way; or the oldest request that may be served waits: for its row to be closed or opened, for the bus to turn between
writes and reads, for its bank group, or for the command bus. A state lasts from one look of the controller to the next.
Cycles in which requests stand before a full queue are counted besides.

A transfer is over in a channel with the last of its requests there, and over when its last channel is done. What that
channel did while requests of it were there is what the transfer waited for; of the cycles in which data moved, only
those of other queues'. The rest of the time they were on their way.
"""

from __future__ import annotations

from simulator.compiled import compiled
from simulator.tileprogram.program import I64

# Of a channel: cycles in each state, and besides those in which requests stood before a full queue; then up to when it
# is counted, the state since, until when data moves, and how many transfers have nothing there yet
TRANSFER, ROW, GROUP, TURN, REFRESH, COMMAND, IDLE, STATES = 0, 1, 2, 3, 4, 5, 6, 7
FULL, COUNTED, SINCE, STATE, MOVING, NOT_NOTED, SPENT = 7, 8, 8, 9, 10, 11, 12

# Of a source in a channel: cycles in each state while requests of its transfer were there, and those in which its own
# data moved
OWN, NOTES = STATES, STATES + 1


@compiled
def pass_time(spent: I64, now: int) -> None:
    """Counts what a channel did up to a cycle."""
    moving = min(max(spent[MOVING], spent[SINCE]), now)
    spent[TRANSFER] += moving - spent[SINCE]
    spent[spent[STATE]] += now - moving
    spent[SINCE] = now


@compiled
def enter(spent: I64, state: int, now: int) -> None:
    """From now on a channel is in a state where no data moves."""
    if spent[STATE] != state:
        pass_time(spent, now)
        spent[STATE] = state


@compiled
def _note(notes: I64, spent: I64, at: int, sign: int) -> None:
    """Adds what a channel has done up to a cycle, no sooner than the last that is counted, or takes it off."""
    for state in range(STATES):
        notes[state] += sign * spent[state]
    moving = min(max(spent[MOVING], spent[SINCE]), at)
    notes[TRANSFER] += sign * (moving - spent[SINCE])
    notes[spent[STATE]] += sign * (at - moving)


@compiled
def begin(notes: I64, spent: I64, at: int) -> None:
    """Notes what a channel had done before a request of a transfer came that had none there."""
    _note(notes, spent, at, -1)
    spent[NOT_NOTED] -= 1


@compiled
def pause(notes: I64, spent: I64, at: int) -> None:
    """Notes what a channel has done when all that is left of a transfer is on its way."""
    _note(notes, spent, at, 1)
    spent[NOT_NOTED] += 1


@compiled
def end(notes: I64, spent: I64, at: int) -> None:
    """Notes what a channel has done when the last request of a transfer is: its own data is no waiting."""
    _note(notes, spent, at, 1)
    notes[TRANSFER] = max(0, notes[TRANSFER] - notes[OWN])


@compiled
def move(notes: I64, spent: I64, now: int, length: int, own: bool) -> None:
    """Data moves from now on; what was not moving before is a source's own, if its notes go on."""
    if spent[MOVING] < now:
        pass_time(spent, now)
        spent[MOVING] = now
    if own:
        notes[OWN] += max(0, now + length - spent[MOVING])
    spent[MOVING] = max(spent[MOVING], now + length)
