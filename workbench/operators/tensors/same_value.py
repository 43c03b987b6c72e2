"""Equality of plain values as a graph sees them: by type and bits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np


def same_value(one: object, other: object) -> bool:
    """True if a program cannot tell the values apart: 0.0 is not -0.0, 1 is neither True nor 1.0, and NaN is NaN."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.generic) and isinstance(other, np.generic):  # the classes are equal, so the element types are
        return one.tobytes() == other.tobytes() or bool(one != one and other != other)
    if isinstance(one, (float, complex)):
        return repr(one) == repr(other)
    if isinstance(one, (list, tuple, deque)):
        pair = cast("tuple[Sequence[object], Sequence[object]]", (one, other))
        return len(pair[0]) == len(pair[1]) and all(map(same_value, *pair))
    if isinstance(one, (set, frozenset)):
        members, others = cast("tuple[Iterable[object], Iterable[object]]", (one, other))
        return bool(members == others) and set(map(_of_a_set, members)) == set(map(_of_a_set, others))
    if isinstance(one, dict):
        held, now = cast("tuple[Mapping[object, object], Mapping[object, object]]", (one, other))
        return same_value(list(held), list(now)) and all(map(same_value, held.values(), now.values()))
    return bool(one == other)


def differing(then: Mapping[Any, Any], now: Mapping[Any, Any], same: Callable[[Any, Any], bool]) -> list[Any]:
    """The keys whose values differ, or that only one of the two dicts has."""
    return [key for key in {**then, **now} if key not in then or key not in now or not same(then[key], now[key])]


def _of_a_set(member: object) -> object:
    """A text that tells numbers of a set apart: sets take 0.0 and -0.0 for one number. Empty for other members."""
    return repr(member) if isinstance(member, (float, complex)) else ""
