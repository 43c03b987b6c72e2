"""Circular waits: instructions that wait for one another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

_MOST_NAMED = 20


def circle(first: int, waits: Callable[[int], Iterable[int]]) -> list[int]:
    """A circle of waits that can be reached from `first`: its members in order, with the first again at the end.

    An empty list if there is no circle.
    """
    way, place = [first], {first: 0}
    left: list[Iterator[int]] = [iter(waits(first))]
    settled = set[int]()
    while left:
        awaited = next(left[-1], None)
        if awaited is None:
            settled.add(way[-1])
            del place[way.pop()]
            left.pop()
        elif awaited in place:
            return [*way[place[awaited] :], awaited]
        elif awaited not in settled:
            place[awaited] = len(way)
            way.append(awaited)
            left.append(iter(waits(awaited)))
    return []


def told(names: list[str]) -> str:
    """The members of a circle in one line; the middle of a long one is left out."""
    half = _MOST_NAMED // 2
    shown = names if len(names) <= _MOST_NAMED else [*names[:half], "...", *names[-half:]]
    return " waits for ".join(shown)
