"""The common parts of several sequences: shared items have the same order in all of them."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

Keys: TypeAlias = Sequence[Hashable]
Pair: TypeAlias = tuple[int, int]
_MOST_EFFORT: Final = 500_000
"""The most effort for two stretches, about a second of work; stretches that take more count as replaced."""


def matched(old: Keys, new: Keys) -> list[Pair]:
    """The places of the items that two sequences share, in order."""
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    a, b = old[first : len(old) - last], new[first : len(new) - last]
    compared = a and b and _effort(a, b) <= _MOST_EFFORT
    blocks = difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks() if compared else []
    return [
        *((place, place) for place in range(first)),
        *((first + block.a + step, first + block.b + step) for block in blocks for step in range(block.size)),
        *((len(old) - place, len(new) - place) for place in range(last, 0, -1)),
    ]


def _effort(a: Keys, b: Keys) -> int:
    """Estimates the matcher's work: the pairs of equal items, and the sequences' lengths once for each block."""
    mine, others = Counter(a), Counter(b)
    return sum(count * others[key] for key, count in mine.items()) + min(len(a), len(b)) ** 2 // 8


def refined(old: Sequence[Keys], new: Sequence[Keys]) -> list[Pair]:
    """Matches two sequences by several keys for each item, the surest first: a later key only matches items between
    those that earlier keys matched.

    Matches of the first keys come first, then those of the second, and so on.
    """
    ends = len(old[0]), len(new[0])
    found: list[Pair] = []
    for mine, others in zip(old, new, strict=True):
        between = [(-1, -1), *sorted(found), ends]
        found += [
            (i + 1 + a, j + 1 + b)
            for (i, j), (k, m) in pairwise(between)
            for a, b in matched(mine[i + 1 : k], others[j + 1 : m])
        ]
    return found


def merged(sequences: Sequence[Sequence[Keys]]) -> list[tuple[int | None, ...]]:
    """Merges several sequences into one that keeps the order of each: for each item its place in every sequence, None
    where a sequence lacks it.

    An item of each sequence stands beside at most one item of every other. Each sequence is given as its items' keys,
    the surest first.
    """
    rows: list[list[int | None]] = []
    keys: list[list[Hashable]] = [[] for _ in sequences[0]]
    for number, sequence in enumerate(sequences):
        places = dict(refined(keys, sequence))
        at = {theirs: mine for mine, theirs in places.items()}
        made, row = list[tuple[list[int | None], int, int]](), 0
        for item in range(len(sequence[0])):
            stop = at.get(item)
            if stop is None:
                made.append(([None] * number + [item], -1, item))
                continue
            made += [([*rows[mine], None], mine, -1) for mine in range(row, stop)]
            made.append(([*rows[stop], item], stop, item))
            row = stop + 1
        made += [([*rows[mine], None], mine, -1) for mine in range(row, len(rows))]
        keys = [
            [mine[old] if old >= 0 else theirs[new] for _, old, new in made]
            for mine, theirs in zip(keys, sequence, strict=True)
        ]
        rows = [places for places, _, _ in made]
    return [tuple(row) for row in rows]
