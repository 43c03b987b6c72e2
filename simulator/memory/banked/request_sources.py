"""The sources of requests to a channel: the arrival of requests, their order at a port, and their completion.

Sources that share a port wait in line there, the source that began first before all others. With a network, a source is
in line only while its next request has arrived.
"""

from __future__ import annotations

from simulator.compiled import compiled
from simulator.memory.banked import channel_time
from simulator.memory.banked.channels import Channel
from simulator.memory.banked.fields import NEVER, Part, Setting, Source


@compiled
def _comes(of: Channel, source: int) -> int:
    """The cycle in which the next request of a source arrives at the channel."""
    if len(of.requests) == 1:
        return of.sources[source, Source.BEGIN]
    return max(of.sources[source, Source.BEGIN], of.requests[1, source, of.parts[source, Part.CURSOR]])


@compiled
def note_arrivals(of: Channel, now: int) -> None:
    """Starts the notes of transfers of which a request has arrived and which had none in the channel."""
    for source in range(len(of.parts)):
        comes = _comes(of, source) if of.parts[source, Part.UNNOTED] == 1 else NEVER
        if comes <= now:
            channel_time.begin(of.parts[source], of.clock, comes)
            of.parts[source, Part.AWAY] += comes - of.parts[source, Part.SINCE]
            of.parts[source, Part.UNNOTED] = 0


@compiled
def next_begin(of: Channel, now: int) -> int:
    """The next cycle after `now` in which a source's next request arrives; `NEVER` if there is none."""
    begin = NEVER
    for source in range(len(of.parts)):
        if of.parts[source, Part.CURSOR] < of.parts[source, Part.STOP]:
            comes = _comes(of, source)
            if comes > now:
                begin = min(begin, comes)
    return begin


@compiled
def first_at(of: Channel, port: int, now: int) -> int:
    """The first source in line at a port; -1 for none. Sources that begin later queue behind it, so it stays first."""
    if of.first[port] >= 0:
        return of.first[port]
    found = -1
    for source in range(port * of.figures[Setting.SHARING], (port + 1) * of.figures[Setting.SHARING]):
        if of.parts[source, Part.CURSOR] < of.parts[source, Part.STOP] and (
            found < 0 or of.sources[source, Source.PLACE] < of.sources[found, Source.PLACE]
        ):
            if len(of.requests) == 2 and _comes(of, source) > now:
                continue
            found = source
    if len(of.requests) == 1:
        of.first[port] = found
    return found


@compiled
def step(of: Channel, port: int, source: int) -> None:
    """Moves a source on to its next request, after one has been taken at its port."""
    of.parts[source, Part.CURSOR] += 1
    if of.parts[source, Part.CURSOR] == of.parts[source, Part.STOP]:
        of.first[port] = -1


@compiled
def done(of: Channel, source: int, now: int, at: int) -> None:
    """Counts one request of a source as done in cycle `at`."""
    of.sources[source, Source.LEFT] -= 1
    of.sources[source, Source.DONE] = max(of.sources[source, Source.DONE], at)
    of.parts[source, Part.REMAINING] -= 1
    if of.parts[source, Part.REMAINING] == 0:
        of.parts[source, Part.LATEST] = at
        channel_time.end(of.parts[source], of.clock, now)
    elif (
        len(of.requests) == 2
        and of.parts[source, Part.REMAINING] == of.parts[source, Part.STOP] - of.parts[source, Part.CURSOR]
        and of.requests[1, source, of.parts[source, Part.CURSOR]] > now
    ):
        channel_time.pause(of.parts[source], of.clock, now)
        of.parts[source, Part.UNNOTED], of.parts[source, Part.SINCE] = 1, now
