"""Hazards: which instructions touch the same memory, and what must keep them in order.

There are two sides here, and they share nothing but the geometry of boxes. `DependenceTracker` *derives* the
dependences a program should carry, forgetting what later writes have covered. `conflicts` *re-derives* every
conflict of a finished program box by box, without a notion of "covered", and is what a program and a trace are
checked against.

What orders two instructions, apart from dependences, is only this: **a core's vector unit is one in-order unit:
of two vector instructions, the earlier ends before the later starts.** Several DMA queues and several systolic
arrays run side by side, and an array starts the next matmul before the results of the last have left it, so two
copies, or two matmuls, are in no order at all unless a path of dependences orders them.

A path orders in one of two strengths. Any dependence but ACCUMULATE lets the later instruction start when the
results of the earlier are complete. ACCUMULATE only keeps the later one behind on the same array: each of its
rows follows the same row of the earlier. A path with at least one other edge is as strong as that edge, since the
matmul that is followed completes after its predecessor does; a path of ACCUMULATE edges alone orders accumulation only.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from simulator.boxes import Box, box_of, covers, overlap
from simulator.program import Access, DependenceKind, Instruction, Opcode, Operand, TileProgram

Location = tuple[int, int, int]
"""(space, target, slot): memory that no other location shares a byte with."""

ACCUMULATOR = 2
"""Operand index of a matmul's accumulator."""


# -- deriving ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Seen:
    """An access that a later one may have to wait for."""

    first: int
    instruction: int
    box: Box
    accumulates: bool


@dataclass(slots=True)
class _Seens:
    """Accesses of one kind to one location, sorted by their first byte."""

    rows: list[_Seen] = field(default_factory=list[_Seen])
    longest: int = 0

    def add(self, seen: _Seen) -> None:
        self.longest = max(self.longest, seen.box.end - seen.box.first)
        bisect.insort(self.rows, seen, key=attrgetter("first"))

    def touching(self, box: Box) -> Iterator[_Seen]:
        low = bisect.bisect_left(self.rows, box.first - self.longest, key=attrgetter("first"))
        for seen in self.rows[low:]:
            if seen.first >= box.end:
                return
            if overlap(seen.box, box):
                yield seen

    def forget(self, box: Box) -> None:
        """Drops what `box` covers whole: whoever would have waited for it now waits for the one that covers it."""
        covered = {id(seen) for seen in self.touching(box) if covers(box, seen.box)}
        if covered:
            self.rows = [seen for seen in self.rows if id(seen) not in covered]


@dataclass(slots=True)
class _History:
    writes: _Seens = field(default_factory=_Seens)
    reads: _Seens = field(default_factory=_Seens)


# When one instruction has several reasons to wait for another, the first of these is kept: the strongest.
_STRENGTH = (
    DependenceKind.READ_AFTER_WRITE,
    DependenceKind.WRITE_AFTER_WRITE,
    DependenceKind.WRITE_AFTER_READ,
    DependenceKind.ACCUMULATE,
)


class DependenceTracker:
    """Derives dependences while a program is built: call `add` with every instruction, in program order.

    It returns the direct dependences of that instruction, to be stored with it. A wait that another of the
    instruction's waits already brings about is left out. Dependences between vector instructions are kept although
    queue order alone would do, because they are what a reader of the program wants to see.
    """

    def __init__(self) -> None:
        self._histories: dict[Location, _History] = {}
        self._waits: list[dict[int, DependenceKind]] = []

    def add(self, instruction: Instruction) -> tuple[tuple[int, DependenceKind], ...]:
        """What the next instruction must wait for: (index, kind), earliest first."""
        index = len(self._waits)
        found: dict[int, DependenceKind] = {}
        for number, operand in enumerate(instruction.operands):
            history = self._histories.setdefault((operand.space, operand.target, operand.slot), _History())
            chained = instruction.accumulates and number == ACCUMULATOR
            for source, kind in _waits_for(operand, box_of(operand), chained, history):
                if source not in found or _STRENGTH.index(kind) < _STRENGTH.index(found[source]):
                    found[source] = kind
        for number, operand in enumerate(instruction.operands):
            chains = instruction.opcode == Opcode.MATMUL and number == ACCUMULATOR
            self._remember(index, operand, chains)
        direct = self._without_implied(found)
        self._waits.append(direct)
        return tuple(sorted(direct.items()))

    def _remember(self, index: int, operand: Operand, chains: bool) -> None:
        history = self._histories[(operand.space, operand.target, operand.slot)]
        box = box_of(operand)
        seen = _Seen(box.first, index, box, chains)
        if operand.access & Access.WRITE:
            history.writes.forget(box)
            history.reads.forget(box)
            history.writes.add(seen)
        else:
            history.reads.add(seen)

    def _without_implied(self, found: dict[int, DependenceKind]) -> dict[int, DependenceKind]:
        implied = set[int]()
        for later, kind in found.items():
            for earlier, inner in self._waits[later].items():
                strong = kind != DependenceKind.ACCUMULATE or inner != DependenceKind.ACCUMULATE
                if earlier in found and (strong or found[earlier] == DependenceKind.ACCUMULATE):
                    implied.add(earlier)
        return {source: kind for source, kind in found.items() if source not in implied}


def _waits_for(
    operand: Operand, box: Box, chained: bool, history: _History
) -> Iterator[tuple[int, DependenceKind]]:
    if box.first == box.end:
        return
    for seen in history.writes.touching(box):
        if chained and seen.accumulates and seen.box == box:
            yield seen.instruction, DependenceKind.ACCUMULATE
        elif operand.access & Access.READ:
            yield seen.instruction, DependenceKind.READ_AFTER_WRITE
        else:
            yield seen.instruction, DependenceKind.WRITE_AFTER_WRITE
    if operand.access & Access.WRITE:
        for seen in history.reads.touching(box):
            yield seen.instruction, DependenceKind.WRITE_AFTER_READ


# -- checking ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two instructions touch the same bytes and at least one writes: `earlier` must come first."""

    earlier: int
    later: int
    accumulation: bool
    """Both add into the same accumulator box: rows in order are enough, the array need not drain between."""
    where: str


@dataclass(frozen=True, slots=True)
class _Touch:
    instruction: int
    writes: bool
    adds: bool
    """It is a matmul's access to its accumulator, adding to what was there."""
    makes: bool
    """It is any matmul's access to its accumulator."""


def conflicts(program: TileProgram) -> list[Conflict]:
    """Conflicts of a program, from its boxes alone, such that ordering these orders all.

    Per location, accesses are gathered by box. For each box, and for each two boxes that overlap, every access
    conflicts with every other of the gathered ones unless both read. Of those pairs it is enough to take a read with
    the write before it, and a write with everything since the write before it, that one included: the others follow
    by transitivity. Distinct arguments never share memory, distinct buffers and slots neither.
    """
    found: dict[tuple[int, int], Conflict] = {}
    for location, boxes in _touches(program).items():
        if not any(touch.writes for touches in boxes.values() for touch in touches):
            continue
        where = _name(program, location)
        for touches in boxes.values():
            _adjacent(touches, True, where, found)
        for a, b in _overlapping(list(boxes)):
            if any(touch.writes for touch in (*boxes[a], *boxes[b])):
                merged = sorted((*boxes[a], *boxes[b]), key=attrgetter("instruction"))
                _adjacent(merged, False, where, found)
    return sorted(found.values(), key=attrgetter("later", "earlier"))


def _touches(program: TileProgram) -> dict[Location, dict[Box, list[_Touch]]]:
    out: dict[Location, dict[Box, list[_Touch]]] = {}
    for index in range(len(program)):
        instruction = program.instruction(index)
        for number, operand in enumerate(instruction.operands):
            box = box_of(operand)
            if box.first == box.end:
                continue
            makes = instruction.opcode == Opcode.MATMUL and number == ACCUMULATOR
            touch = _Touch(index, bool(operand.access & Access.WRITE), makes and instruction.accumulates, makes)
            location = (int(operand.space), operand.target, operand.slot)
            out.setdefault(location, {}).setdefault(box, []).append(touch)
    return out


def _overlapping(boxes: list[Box]) -> Iterator[tuple[Box, Box]]:
    """Every two different boxes that share a byte: each is held against all that begin before it ends."""
    ordered = sorted(boxes, key=attrgetter("first"))
    for index, box in enumerate(ordered):
        for other in ordered[index + 1 :]:
            if other.first >= box.end:
                break
            if overlap(box, other):
                yield box, other


def _adjacent(
    touches: list[_Touch], one_box: bool, where: str, found: dict[tuple[int, int], Conflict]
) -> None:
    since: list[_Touch] = []  # the last write and the reads after it
    for touch in touches:
        for before in since if touch.writes else since[:1]:
            if before.instruction == touch.instruction or not (before.writes or touch.writes):
                continue
            accumulation = one_box and before.makes and touch.adds
            pair = (before.instruction, touch.instruction)
            if pair not in found or found[pair].accumulation:
                found[pair] = Conflict(*pair, accumulation, where)
        if touch.writes:
            since = [touch]
        else:
            since.append(touch)


def _name(program: TileProgram, location: Location) -> str:
    space, target, slot = location
    if space == 0:
        return f"argument {program.arguments[target].name!r}"
    return f"buffer {program.buffers[target].name!r} slot {slot}"


class Order:
    """Which instructions a program's dependences, and the vector unit's queue, put in order."""

    def __init__(self, program: TileProgram) -> None:
        starts, sources, kinds = program.dependence_start, program.dependence, program.dependence_kind
        self._before: list[list[tuple[int, bool]]] = []
        last_vector: dict[int, int] = {}
        for index in range(len(program)):
            waits = range(int(starts[index]), int(starts[index + 1]))
            edges = [(int(sources[i]), int(kinds[i]) != DependenceKind.ACCUMULATE) for i in waits]
            core = int(program.core[index])
            if program.opcode[index] == Opcode.VECTOR:
                if core in last_vector:
                    edges.append((last_vector[core], True))
                last_vector[core] = index
            self._before.append(edges)

    def holds(self, earlier: int, later: int, *, accumulation: bool = False) -> bool:
        """Whether `later` waits for `earlier` to complete or, for `accumulation`, at least follows it on its array.

        Walks backward from `later`, nearest edges first and never past `earlier`: most conflicts are between
        neighbours, or one edge away.
        """
        seen = {(later, False)}
        ahead = deque([(later, False)])
        while ahead:
            node, strong = ahead.popleft()
            for source, edge_strong in self._before[node]:
                state = (source, strong or edge_strong)
                if source == earlier and (state[1] or accumulation):
                    return True
                if source > earlier and state not in seen and (source, True) not in seen:
                    seen.add(state)
                    ahead.append(state)
        return False
