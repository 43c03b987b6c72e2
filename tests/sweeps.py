"""Sweeps: tests of every combination of some values, of which `make test` runs a part and `make sweeps` all.

The part is the same everywhere, and has each value of each axis in it; of three axes and more, each pair of values.
Which combinations these are follows from their names, so a new value changes little of it.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Mapping

import pytest

Call = Mapping[int, str]
"""Axis -> the name of its value."""


def covering(calls: Mapping[str, Call]) -> set[str]:
    """The names of calls that together have all that may stand together in one of them."""
    seen, kept = set[tuple[tuple[int, str], ...]](), set[str]()
    for name in sorted(calls, key=lambda name: zlib.crc32(name.encode())):
        call = sorted(calls[name].items())
        together = {*itertools.combinations(call, min(len(call) - 1, 2) or 1)}
        if not together <= seen:
            seen |= together
            kept.add(name)
    return kept


def left_out(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The tests of sweeps that are not in the part. One without parameters asks `whole_sweep`."""
    sweeps: dict[str, dict[str, pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("sweep") and hasattr(item, "callspec"):
            sweeps.setdefault(item.nodeid.partition("[")[0], {})[item.nodeid] = item
    gone: list[pytest.Item] = []
    for sweep in sweeps.values():
        kept = covering({name: axes(item) for name, item in sweep.items()})
        gone += [item for name, item in sweep.items() if name not in kept]
    return gone


def axes(item: pytest.Function) -> Call:
    """One axis for each `parametrize`, however many arguments it gives, with its values by their ids."""
    return dict(enumerate(item.callspec._idlist))
