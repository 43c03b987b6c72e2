"""Conflicts: pairs of instructions of a finished program that touch the same memory, found without its dependences.

`conflicts` finds the pairs box by box, without forgetting accesses that later writes cover (see hazards.py);
`unordered` yields the pairs that the program's dependences leave in no order. Programs and traces are checked by these.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

from simulator.tileprogram.barriers import Crossed
from simulator.tileprogram.box_index import Nearby
from simulator.tileprogram.boxes import Box, box_of, meet, moved, surely_overlap
from simulator.tileprogram.hazards import ACCUMULATOR, IN_ORDER, Grade, Location, grade_of, path_grade, sharing
from simulator.tileprogram.program import Access, DependenceKind, Opcode, TileProgram


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two instructions that touch the same bytes, of which at least one writes: `earlier` must come first."""

    earlier: int
    later: int
    grade: Grade
    """The strength of the order that they need."""
    where: str


@dataclass(frozen=True, slots=True)
class _Touch:
    instruction: int
    box: Box
    writes: bool
    adds: bool
    """True if this is a matmul's access to its accumulator that adds to the old value."""
    makes: bool
    """True if this is a matmul's access to its accumulator, adding or not."""


def conflicts(program: TileProgram) -> list[Conflict]:
    """Conflicts of a program, from its boxes alone: enough of them that ordering these orders all.

    Accesses are gathered by location and box. Within a box, and between two boxes that overlap, any two accesses
    conflict unless both read. Of these pairs it is enough to take a read with the write before it, and a write with all
    accesses from the write before it on: the other pairs follow by transitivity. Distinct arguments never share memory;
    slots of distinct buffers do where their addresses meet.
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
    """Yields every two different boxes that surely share a byte: no access waits for boxes that only seem to."""
    before = Nearby[None]()
    for box in boxes:
        yield from ((other, box) for other in before.near(box) if surely_overlap(other, box))
        before.add(box, None)


def _adjacent(touches: list[_Touch], where: str, found: dict[tuple[int, int, Grade], Conflict]) -> None:
    """Adds to `found` the pairs of touches, given in program order, that order all conflicts among the touches."""
    writes, reads = list[_Touch](), list[_Touch]()  # of the last writer; since then
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
    """Adds to `found` the pairs between two slots that share bytes; `boxes` lie `shift` bytes above the `others`."""
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
    """Yields the conflicts that the program's dependences do not order as firmly as needed."""
    order = Order(program)
    return (conflict for conflict in found if not order.holds(conflict.earlier, conflict.later, conflict.grade))


class Order:
    """The order of instructions by a program's dependences, its BARRIERs and its in-order units."""

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
        """True if `later` waits for `earlier` at least as firmly as `grade`.

        Most often the path leads over an in-order unit, whose summary answers at once. Otherwise it walks backward from
        `later`, nearest edges first and never past `earlier`: most of the rest are neighbours.
        """
        if any(chain.orders(earlier, later, grade) for chain in self.chains):
            return True
        seen = set[tuple[int, Grade]]()
        ahead = deque([(later, Grade.FOLLOW)])  # the empty path: the first step decides
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
    """The instructions of an in-order unit: two look-ups find whether a path over them orders two instructions."""

    def __init__(self, members: list[int], before: list[list[tuple[int, Grade]]]) -> None:
        own, beyond = set(members), len(before)
        self._last = list[int]()
        """By instruction: itself if it is a member, else the last member that it waits for; -1 if none."""
        for index, edges in enumerate(before):
            self._last.append(index if index in own else max((self._last[source] for source, _ in edges), default=-1))
        self._first = [beyond] * beyond
        """By instruction: itself if it is a member, else the first member that waits for it."""
        self._first_complete = [beyond] * beyond
        """By instruction: itself if it is a member, else the first member that starts when it is complete."""
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
        """True if a path from `earlier` to `later` leads over a member and orders as firmly as `grade`."""
        first, last = (self._first if grade == Grade.RELEASE else self._first_complete)[earlier], self._last[later]
        return first < last or (first == last != earlier)  # from a member: by its first step
