"""Sweeps: tests of every combination of some values, of which `make test-all` runs a part and `make sweeps` all.

The part is the same everywhere, and has each value of each axis in it; of three axes and more, each pair of values.
Which combinations these are follows from their names, so a new value changes little of it.

Where many values of one axis are alike, `@pytest.mark.sweep(one_in=3)` says how many of the longest axis will do, and
`@pytest.mark.sweep(pairs=False)` that values need not be met in pairs, however many axes there are.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

Call = Mapping[int, str]
"""Axis -> the name of its value."""


def covering(calls: Mapping[str, Call], *, pairs: bool = True) -> set[str]:
    """The names of calls that together have all that may stand together in one of them; first those that have most."""
    left = {name: _together(calls[name], pairs) for name in sorted(calls, key=lambda name: zlib.crc32(name.encode()))}
    kept = set[str]()
    while left:
        most = max(left, key=lambda name: len(left[name]))
        kept.add(most)
        found = left[most]
        left = {name: rest for name, together in left.items() if (rest := together - found)}
    return kept


def _together(call: Call, pairs: bool) -> set[tuple[tuple[int, str], ...]]:
    """Of two axes single values: pairs of them would be all calls."""
    return {*itertools.combinations(sorted(call.items()), 2 if pairs and len(call) > 2 else 1)}


def sampled(calls: Mapping[str, Call], one_in: int) -> dict[str, Call]:
    """The calls that have one in so many values of the longest axis."""
    values = [dict.fromkeys(call[axis] for call in calls.values()) for axis in range(len(next(iter(calls.values()))))]
    longest = max(range(len(values)), key=lambda axis: len(values[axis]))
    first = sorted(values[longest], key=lambda value: zlib.crc32(min(_with(calls, longest, value)).encode()))
    kept = first[: -(-len(first) // one_in)]
    return {name: call for name, call in calls.items() if call[longest] in kept}


def _with(calls: Mapping[str, Call], axis: int, value: str) -> list[str]:
    return [name for name, call in calls.items() if call[axis] == value]


def left_out(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The tests of sweeps that are not in the part. One without parameters asks `whole_sweep`."""
    sweeps: dict[str, dict[str, pytest.Function]] = {}
    asked: dict[str, Mapping[str, Any]] = {}
    for item in items:
        mark = item.get_closest_marker("sweep")
        if isinstance(item, pytest.Function) and mark and hasattr(item, "callspec"):
            test = item.nodeid.partition("[")[0]
            sweeps.setdefault(test, {})[item.nodeid] = item
            asked[test] = {"one_in": 1, "pairs": True} | mark.kwargs
    gone: list[pytest.Item] = []
    for test, sweep in sweeps.items():
        some = sampled({name: axes(item) for name, item in sweep.items()}, asked[test]["one_in"])
        kept = covering(some, pairs=asked[test]["pairs"])
        gone += [item for name, item in sweep.items() if name not in kept]
    return gone


def axes(item: pytest.Function) -> Call:
    """One axis for each `parametrize`, however many arguments it gives, with its values by their ids."""
    return dict(enumerate(item.callspec._idlist))
