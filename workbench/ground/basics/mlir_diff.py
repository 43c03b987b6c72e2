"""The changes of a pass: two texts of MLIR, compared up to the names that its printer numbers again for each text.

The printer numbers values, affine maps and blocks in the order in which it meets them, so one operation more at the top
gives every line below it other names. So texts are compared up to a one-to-one renaming: lines count as the same if
that renaming makes them so. The comparison ignores locations.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from workbench.ground.basics.common_parts import Pair, matched, refined

_LOCATION = re.compile(r"loc\((?:[^()\"]|\"(?:[^\"\\]|\\.)*\"|\((?:[^()]|\([^()]*\))*+\))*+\)$")
_LOCATION_BEGINS = re.compile(r"\bloc\(")
_NAME = re.compile(r"\"(?:[^\"\\]|\\.)*(?:\"|$)|(?P<name>%[\w$.-]+|\^\w+|(?<![\w#])#[A-Za-z_]\w*\b(?!\.))")
_MOST_LOCATIONS = 8
"""The most places of a line that are tried as the begin of its location: `loc(` may also occur in a string."""
_SYMBOL = re.compile(r"@\w+")
_DEFINES_ALL = re.compile(r"\^|\(|(?:func\.func|transform\.named_sequence)\b")
_LOOP_INDICES = re.compile(r"\bscf\.(?:forall|parallel) \(([^()]*)\)")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a text, and the names on it."""

    text: str
    form: str
    """The text with every name taken out."""
    names: tuple[int, ...]
    """A number for each name on the line: the same value, map or block has the same number on every line."""
    defines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A stretch of lines: the same in both texts up to names, or a replacement."""

    same: bool
    before: tuple[int, ...]
    """0-based lines of the text before."""
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Diff:
    """Two texts and their changes, stretch by stretch."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    changes: tuple[Change, ...]

    @property
    def added(self) -> int:
        return sum(len(change.after) for change in self.changes if not change.same)

    @property
    def removed(self) -> int:
        return sum(len(change.before) for change in self.changes if not change.same)

    @property
    def empty(self) -> bool:
        """True if the two texts differ in names alone."""
        return not self.added and not self.removed


def compared(before: str, after: str) -> Diff:
    """Returns the smallest of several differences, each of which follows from one renaming."""
    old, new = read(before), read(after)
    tried = (_agreeing(old, new, pairs) for pairs in _pairings(old, new))
    pairs = max(tried, key=len)
    texts = [tuple(line.text for line in lines) for lines in (old, new)]
    return Diff(texts[0], texts[1], tuple(_stretches(pairs, len(old), len(new))))


def canonical(text: str) -> Hashable:
    """A key that is equal for two texts if one renaming makes them the same; the kernel's own name may differ too."""
    return tuple((line.form, line.names) for line in read(_SYMBOL.sub("@", text)))


def shown(diff: Diff, context: int) -> Iterator[Change | int]:
    """Yields the changes with `context` unchanged lines around each, and the number of lines left out between them."""
    for place, change in enumerate(diff.changes):
        count = len(change.before)
        head, tail = context * (place > 0), context * (place < len(diff.changes) - 1)
        if not change.same or count <= head + tail + 1:
            yield change
            continue
        for part in (slice(0, head), slice(head, count - tail), slice(count - tail, count)):
            lines = Change(True, change.before[part], change.after[part])
            if lines.before:
                yield len(lines.before) if part.start == head else lines


@lru_cache(maxsize=4)  # the text after a pass is the text before the next
def read(text: str) -> tuple[Line, ...]:
    """The lines of a text, without locations. Aliases are sorted by their definitions, since the printer orders them by
    first use."""
    texts = [without_location(line) for line in text.strip("\n").splitlines() if not line.startswith("#loc")]
    aliases = [line for line in texts if line.startswith("#")]
    aliases.sort(key=lambda line: line.partition(" = ")[2])
    known, pending = dict[str, int](), set[str]()
    lines: list[Line] = []
    count = 0
    for line in [*aliases, *(line for line in texts if not line.startswith("#"))]:
        names, places, defines = [found for found in _NAME.finditer(line) if found["name"]], list[int](), list[int]()
        new = _defined(line, names)
        for found in names:
            name = found["name"]
            if name not in known or (found.start() in new and name not in pending):
                known[name], count = count, count + 1
                if found.start() not in new:
                    pending.add(name)
            if found.start() in new:
                pending.discard(name)
                defines.append(known[name])
            places.append(known[name])
        form = _NAME.sub(lambda found: found[0][0] if found["name"] else found[0], line)
        lines.append(Line(line, form, tuple(places), tuple(defines)))
    return tuple(lines)


def without_location(line: str) -> str:
    """A line without the location at its end. Few places are tried, so that the time stays proportional to the
    length."""
    bare = line.rstrip()
    begins = islice(_LOCATION_BEGINS.finditer(bare), _MOST_LOCATIONS) if bare.endswith(")") else ()
    at = next((found.start() for found in begins if _LOCATION.match(bare, found.start())), None)
    return line if at is None else bare[:at].rstrip()


def _defined(line: str, names: Sequence[re.Match[str]]) -> set[int]:
    """The places on a line at which a name is defined: before an equals sign, and as a region's argument."""
    bare = line.strip()
    if _DEFINES_ALL.match(bare):
        return {found.start() for found in names}
    equals = line.find(" = ")
    results = {found.start() for found in names if found.start() < equals and bare.startswith(("%", "#"))}
    given = {found.start() for found in names if line.startswith(" = ", found.end())}
    loop = _LOOP_INDICES.search(line)
    indices = {found.start() for found in names if loop and loop.start(1) <= found.start() < loop.end(1)}
    return results | given | indices


def _pairings(old: Sequence[Line], new: Sequence[Line]) -> Iterator[list[Pair]]:
    """Ways to pair lines: by all the lines they depend on, by their text, and by their form alone; lines that the first
    two leave over are paired by form as well."""
    forms = [line.form for line in old], [line.form for line in new]
    yield refined((_roots(old), forms[0]), (_roots(new), forms[1]))
    yield refined(([line.text for line in old], forms[0]), ([line.text for line in new], forms[1]))
    yield matched(*forms)


def _roots(lines: Sequence[Line]) -> list[Hashable]:
    """A hash for each line: of its form, and of all lines that define what it reads, all the way up."""
    found: list[Hashable] = []
    defined = dict[int, int]()
    for line in lines:
        found.append(hash((line.form, tuple(defined.get(name, -1) for name in line.names))))
        for place, name in enumerate(line.defines):
            defined[name] = hash((found[-1], place))
    return found


def _agreeing(old: Sequence[Line], new: Sequence[Line], pairs: Sequence[Pair]) -> list[Pair]:
    """Returns the pairs of lines that one renaming makes equal, first come first served, in the order of the lines."""
    there, back = dict[int, int](), dict[int, int]()
    kept: list[Pair] = []
    for i, j in pairs:
        names = list(zip(old[i].names, new[j].names, strict=True))
        if all(there.get(a, b) == b and back.get(b, a) == a for a, b in names) and _one_to_one(names):
            there |= dict(names)
            back |= {b: a for a, b in names}
            kept.append((i, j))
    return sorted(kept)


def _one_to_one(names: Sequence[Pair]) -> bool:
    return len(set(names)) == len({a for a, _ in names}) == len({b for _, b in names})


def _stretches(pairs: Sequence[Pair], old: int, new: int) -> Iterator[Change]:
    i = j = 0
    same: list[Pair] = []
    for a, b in [*pairs, (old, new)]:
        if (a, b) != (i, j):
            if same:
                yield _change(same)
                same = []
            yield Change(False, tuple(range(i, a)), tuple(range(j, b)))
        same.append((a, b))
        i, j = a + 1, b + 1
    if same[:-1]:
        yield _change(same[:-1])


def _change(pairs: Sequence[Pair]) -> Change:
    return Change(True, tuple(a for a, _ in pairs), tuple(b for _, b in pairs))
