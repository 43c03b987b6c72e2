"""Hazards: which instructions touch the same memory, and what must keep them in order.

There are two sides here, and they share nothing but the geometry of boxes. `DependenceTracker` *derives* the
dependences a program should carry, forgetting what later writes have covered. `conflicts` *re-derives* every
conflict of a finished program box by box, without a notion of "covered", and is what a program and a trace are
checked against.

What orders two instructions, apart from dependences, is only this: **a core's vector unit is one in-order unit, and so
is its scalar unit: of two vector instructions, or of two loops of direct accesses, the earlier ends, its last write
answered, before the later starts.** A vector and a scalar instruction are in no order. Several DMA queues and several
systolic arrays run side by side, and an array starts the next matmul before the results of the last have left it, so
two copies, or two matmuls, are in no order at all unless a path of dependences orders them. Cores are in no order
either, but where they meet (`barriers`): what comes after a meeting finds complete what came before it.

An instruction *ends* when its unit takes the next one and is *complete* when its results are there; only a matmul
completes after its end, by then it has read all it reads. So what must be ordered, and what a path of dependences
orders, comes in three grades:

    COMPLETE     the earlier is complete before the later starts: for whatever the earlier writes
    FOLLOW       the later comes behind on the same array, each of its rows after the same row of the earlier:
                 enough for two matmuls that add into one accumulator box
    RELEASE      the earlier has ended before the later starts: enough when the earlier only reads what the later
                 writes

An ACCUMULATE dependence gives FOLLOW, a WRITE_AFTER_READ RELEASE (which is COMPLETE unless the earlier is a matmul),
all others COMPLETE. A path gives the grade of its first dependence; leading ACCUMULATE ones pass on the grade of what
comes after them, because a matmul that follows another also completes after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import groupby
from operator import attrgetter

from simulator.barriers import Crossed
from simulator.boxes import Box, box_of, covers, holds, meet, moved, overlap, without
from simulator.nearby import Nearby
from simulator.program import Access, Buffer, DependenceKind, Instruction, Opcode, Operand, Space, TileProgram

Location = tuple[int, int, int]
"""(space, target, slot): memory whose boxes are compared as boxes. Arguments, and slots of one buffer, never share a
byte; slots of two buffers do where the buffers lie at the same address, and are then compared run by run.
"""

IN_ORDER = (Opcode.VECTOR, Opcode.DIRECT)
"""Opcodes with one in-order unit each, whose instructions complete before the next starts."""

ACCUMULATOR = 2
"""Operand index of a matmul's accumulator."""


# -- deriving ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Seen:
    """An access that a later one may have to wait for."""

    instruction: int
    box: Box
    accumulates: bool


@dataclass(slots=True)
class _Seens:
    """Accesses of one kind to one location."""

    rows: Nearby[_Seen] = field(default_factory=Nearby[_Seen])

    def add(self, seen: _Seen) -> None:
        self.rows.add(seen.box, seen)

    def touching(self, box: Box, meets: Callable[[Box, Box], bool] = overlap) -> Iterator[_Seen]:
        for other in self.rows.near(box):
            if meets(other, box):
                yield from self.rows.at(other)

    def forget(self, box: Box, held: Callable[[Box, Box], bool] = covers) -> None:
        """Drops what `box` covers whole: whoever would have waited for it now waits for the one that covers it."""
        for other in self.rows.near(box):
            if held(box, other):
                self.rows.pop(other)
            elif overlap(other, box) and (left := without(other, box)) != other:
                for seen in self.rows.pop(other):
                    self.add(replace(seen, box=left))


@dataclass(slots=True)
class _History:
    writes: _Seens = field(default_factory=_Seens)
    reads: _Seens = field(default_factory=_Seens)


# When one instruction has several reasons to wait for another, the first of these is kept: the strongest.
_STRENGTH = (
    DependenceKind.READ_AFTER_WRITE,
    DependenceKind.WRITE_AFTER_WRITE,
    DependenceKind.REUSE,
    DependenceKind.ACCUMULATE,
    DependenceKind.WRITE_AFTER_READ,
)


class Grade(IntEnum):
    """How firmly two instructions are ordered; see the module's docstring."""

    RELEASE = 0
    FOLLOW = 1
    COMPLETE = 2


def grade_of(kind: DependenceKind, source: Opcode) -> Grade:
    """What a dependence on an instruction of opcode `source` gives."""
    if kind == DependenceKind.ACCUMULATE:
        return Grade.FOLLOW
    weak = kind == DependenceKind.WRITE_AFTER_READ and source == Opcode.MATMUL
    return Grade.RELEASE if weak else Grade.COMPLETE


def path_grade(first: Grade, rest: Grade) -> Grade:
    """The grade of a path whose first step gives `first` and whose other steps give `rest`."""
    return rest if first == Grade.FOLLOW else first


class DependenceTracker:
    """Derives dependences while a program is built: call `add` with every instruction, in program order.

    It returns the direct dependences of that instruction, to be stored with it. A wait that another of the
    instruction's waits already brings about is left out. Dependences within the vector or the scalar unit are kept
    although queue order alone would do, because they are what a reader of the program wants to see.

    Given the buffers at their addresses, it also derives REUSE dependences between those that share bytes.
    """

    def __init__(self, buffers: Sequence[Buffer] = ()) -> None:
        self._histories: dict[Location, _History] = {}
        self._sharing = sharing(buffers)
        self._waits: list[dict[int, Grade]] = []
        self._opcodes: list[Opcode] = []

    def add(self, instruction: Instruction) -> tuple[tuple[int, DependenceKind], ...]:
        """What the next instruction must wait for: (index, kind), earliest first."""
        index = len(self._waits)
        found: dict[int, DependenceKind] = {}
        boxes = [box_of(operand) for operand in instruction.operands]
        for number, (operand, box) in enumerate(zip(instruction.operands, boxes, strict=True)):
            history = self._histories.setdefault((operand.space, operand.target, operand.slot), _History())
            chained = instruction.accumulates and number == ACCUMULATOR
            for source, kind in _waits_for(operand, box, chained, history):
                _keep_strongest(found, source, kind)
            for source in self._reused(operand):
                _keep_strongest(found, source, DependenceKind.REUSE)
        for number, (operand, box) in enumerate(zip(instruction.operands, boxes, strict=True)):
            chains = instruction.opcode == Opcode.MATMUL and number == ACCUMULATOR
            self._remember(index, operand, box, chains)
        grades = {source: grade_of(kind, self._opcodes[source]) for source, kind in found.items()}
        kept = [source for source in sorted(found) if not self._implied(source, grades)]
        self._waits.append({source: grades[source] for source in kept})
        self._opcodes.append(instruction.opcode)
        return tuple((source, found[source]) for source in kept)

    def _remember(self, index: int, operand: Operand, box: Box, chains: bool) -> None:
        history = self._histories[(operand.space, operand.target, operand.slot)]
        seen = _Seen(index, box, chains)
        if operand.access & Access.WRITE:
            history.writes.forget(box)
            history.reads.forget(box)
            history.writes.add(seen)
            for other, seen_from_there in self._others(operand):
                other.writes.forget(seen_from_there, holds)
                other.reads.forget(seen_from_there, holds)
        else:
            history.reads.add(seen)

    def _others(self, operand: Operand) -> Iterator[tuple[_History, Box]]:
        """What is known of slots of other buffers that share bytes with an operand's, and its bytes seen from them."""
        for other, shift in self._sharing.get((operand.space, operand.target, operand.slot), ()):
            if other in self._histories:
                yield self._histories[other], moved(box_of(operand), shift)

    def _reused(self, operand: Operand) -> Iterator[int]:
        """Who used an operand's bytes as part of another buffer."""
        for other, box in self._others(operand):
            for seen in other.writes.touching(box, meet):
                yield seen.instruction
            for seen in other.reads.touching(box, meet) if operand.access & Access.WRITE else ():
                yield seen.instruction

    def _implied(self, earlier: int, grades: dict[int, Grade]) -> bool:
        """Whether another of the waits brings `earlier` in order as firmly as its own edge would."""
        return any(
            path_grade(self._waits[later][earlier], grade) >= grades[earlier]
            for later, grade in grades.items()
            if earlier in self._waits[later]
        )


def _keep_strongest(found: dict[int, DependenceKind], source: int, kind: DependenceKind) -> None:
    if source not in found or _STRENGTH.index(kind) < _STRENGTH.index(found[source]):
        found[source] = kind


def sharing(buffers: Sequence[Buffer]) -> dict[Location, list[tuple[Location, int]]]:
    """For each slot, those of other buffers that share bytes with it, and how far their byte 0 lies below its own."""
    slots = [
        (buffer.offset + slot * buffer.slot_bytes, buffer.slot_bytes, (int(Space.SCRATCHPAD), number, slot))
        for number, buffer in enumerate(buffers)
        for slot in range(buffer.slots)
    ]
    found: dict[Location, list[tuple[Location, int]]] = {}
    for start, size, location in slots:
        for other_start, other_size, other in slots:
            if other[1] == location[1] or buffers[other[1]].core != buffers[location[1]].core:
                continue
            if start < other_start + other_size and other_start < start + size:
                found.setdefault(location, []).append((other, start - other_start))
    return found


def _waits_for(operand: Operand, box: Box, chained: bool, history: _History) -> Iterator[tuple[int, DependenceKind]]:
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
    grade: Grade
    """How firmly they must be ordered."""
    where: str


@dataclass(frozen=True, slots=True)
class _Touch:
    instruction: int
    box: Box
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
    by transitivity. Distinct arguments never share memory; slots of distinct buffers do where their addresses meet.
    """
    found: dict[tuple[int, int, Grade], Conflict] = {}
    touched = _touches(program)
    for location, boxes in touched.items():
        if not any(touch.writes for touches in boxes.values() for touch in touches):
            continue
        where = _name(program, location)
        for touches in boxes.values():
            _adjacent(touches, where, found)
        for a, b in _overlapping(list(boxes)):
            if any(touch.writes for touch in (*boxes[a], *boxes[b])):
                merged = sorted((*boxes[a], *boxes[b]), key=attrgetter("instruction"))
                _adjacent(merged, where, found)
    for location, others in sharing(program.buffers).items():
        for other, shift in others:
            if location < other and location in touched and other in touched:
                where = f"{_name(program, location)} and, at its address, {_name(program, other)}"
                _across(touched[location], touched[other], shift, where, found)
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
            touch = _Touch(index, box, bool(operand.access & Access.WRITE), makes and instruction.accumulates, makes)
            location = (int(operand.space), operand.target, operand.slot)
            out.setdefault(location, {}).setdefault(box, []).append(touch)
    return out


def _overlapping(boxes: list[Box]) -> Iterator[tuple[Box, Box]]:
    """Every two different boxes that share a byte."""
    before = Nearby[None]()
    for box in boxes:
        yield from ((other, box) for other in before.near(box) if overlap(other, box))
        before.add(box, None)


def _adjacent(touches: list[_Touch], where: str, found: dict[tuple[int, int, Grade], Conflict]) -> None:
    """Notes the pairs of touches, in program order, that order all conflicts among them."""
    writes, reads = list[_Touch](), list[_Touch]()  # of the last instruction that writes; after that write
    for _, group in groupby(touches, key=attrgetter("instruction")):
        own = list(group)
        for touch in own:
            for before in (*writes, *reads) if touch.writes else writes:
                key = (before.instruction, touch.instruction, _needed(before, touch))
                found.setdefault(key, Conflict(*key, where))
        if any(touch.writes for touch in own):
            writes = [touch for touch in own if touch.writes]
            reads = [touch for touch in own if not touch.writes]
        else:
            reads += own


def _across(
    boxes: dict[Box, list[_Touch]],
    others: dict[Box, list[_Touch]],
    shift: int,
    where: str,
    found: dict[tuple[int, int, Grade], Conflict],
) -> None:
    """Notes the pairs between two slots that share bytes; `boxes` lie `shift` bytes higher than the `others`."""
    known = Nearby[None]()
    for other in others:
        known.add(other, None)
    for box, touches in boxes.items():
        there = moved(box, shift)
        for other in known.near(there):
            if meet(there, other):
                both = (*(replace(touch, box=there) for touch in touches), *others[other])
                _adjacent(sorted(both, key=attrgetter("instruction")), where, found)


def _needed(before: _Touch, touch: _Touch) -> Grade:
    if before.makes and touch.adds and before.box == touch.box:
        return Grade.FOLLOW
    return Grade.COMPLETE if before.writes else Grade.RELEASE


def _name(program: TileProgram, location: Location) -> str:
    space, target, slot = location
    if space == 0:
        return f"argument {program.arguments[target].name!r}"
    return f"buffer {program.buffers[target].name!r} slot {slot}"


def unordered(program: TileProgram, found: Sequence[Conflict]) -> Iterator[Conflict]:
    """Those of the conflicts that the program's dependences do not order as firmly as they must."""
    order = Order(program)
    return (conflict for conflict in found if not order.holds(conflict.earlier, conflict.later, conflict.grade))


class Order:
    """Which instructions a program's dependences, and the queues of the units in order, put in order."""

    def __init__(self, program: TileProgram) -> None:
        starts, sources, kinds = program.dependence_start, program.dependence, program.dependence_kind
        self._before: list[list[tuple[int, Grade]]] = []
        in_order: dict[tuple[int, int], list[int]] = {}
        last: dict[tuple[int, int], int] = {}
        crossed = Crossed(program)
        for index in range(len(program)):
            edges = [(row, Grade.COMPLETE) for row in crossed.before(index)]
            for edge in range(int(starts[index]), int(starts[index + 1])):
                source = int(sources[edge])
                edges.append((source, grade_of(DependenceKind(kinds[edge]), Opcode(program.opcode[source]))))
            unit = int(program.core[index]), int(program.opcode[index])
            if unit[1] in IN_ORDER:
                if unit in last:
                    edges.append((last[unit], Grade.COMPLETE))
                last[unit] = index
                in_order.setdefault(unit, []).append(index)
            self._before.append(edges)
        self.chains = [_Chain(members, self._before) for members in in_order.values()]

    def holds(self, earlier: int, later: int, grade: Grade) -> bool:
        """Whether `later` waits for `earlier` at least as firmly as `grade`.

        Most often it does by way of a unit in order, which is told from what is known of that unit. Otherwise it walks
        backward from `later`, nearest edges first and never past `earlier`: most of the rest are neighbours.
        """
        if any(chain.orders(earlier, later, grade) for chain in self.chains):
            return True
        seen = set[tuple[int, Grade]]()
        ahead = deque([(later, Grade.FOLLOW)])  # the empty path: what comes before it decides
        while ahead:
            node, rest = ahead.popleft()
            for source, first in self._before[node]:
                state = (source, path_grade(first, rest))
                if source == earlier and state[1] >= grade:
                    return True
                if source > earlier and state not in seen and (source, Grade.COMPLETE) not in seen:
                    seen.add(state)
                    ahead.append(state)
        return False


class _Chain:
    """The instructions of a unit in order, and what comes before and after them: two looks instead of a long walk."""

    def __init__(self, members: list[int], before: list[list[tuple[int, Grade]]]) -> None:
        own, beyond = set(members), len(before)
        self._last = list[int]()
        """By instruction: the last member that it waits for, or that it is; -1 if none."""
        for index, edges in enumerate(before):
            self._last.append(index if index in own else max((self._last[source] for source, _ in edges), default=-1))
        self._first = [beyond] * beyond
        """By instruction: the first member that waits for it, or that it is."""
        self._first_complete = [beyond] * beyond
        """The first member that it is complete before, or that it is."""
        for index in reversed(range(beyond)):
            if index in own:
                self._first[index] = self._first_complete[index] = index
            for source, grade in before[index]:
                self._first[source] = min(self._first[source], self._first[index])
                if grade == Grade.COMPLETE:
                    self._first_complete[source] = min(self._first_complete[source], self._first[index])
                elif grade == Grade.FOLLOW and index not in own:
                    self._first_complete[source] = min(self._first_complete[source], self._first_complete[index])

    def orders(self, earlier: int, later: int, grade: Grade) -> bool:
        """Whether a path from one to the other leads over a member, as firmly as `grade`."""
        first, last = (self._first if grade == Grade.RELEASE else self._first_complete)[earlier], self._last[later]
        return first < last or (first == last != earlier)  # a path that starts with a member counts for its first step
