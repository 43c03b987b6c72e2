"""Hazards: instructions that touch the same memory, and the order that they need.

There are two independent computations, which share only the geometry of boxes and the grades below. `DependenceTracker`
*derives* the dependences that a program should carry, and forgets accesses that later writes cover. `conflicts`
(conflicts.py) *re-derives* every conflict of a finished program box by box, without forgetting any access; programs and
traces are checked against it.

Apart from dependences, only in-order units order two instructions: **a core's vector unit is one in-order unit, and so
is its scalar unit: of two vector instructions, or of two loops of direct accesses, the earlier ends, its last write
answered, before the later starts.** A vector and a scalar instruction are in no order. Several DMA queues and several
systolic arrays run side by side, and an array starts the next matmul before the results of the last have left it, so
two copies, or two matmuls, are in no order unless a path of dependences orders them. Cores are in no order except where
they meet (`barriers`): all instructions before a meeting are complete when those after it start.

An instruction *ends* when its unit takes the next one and is *complete* when its results are there; only a matmul
completes after its end, and by its end it has read all its operands. So conflicts need, and paths of dependences give,
one of three grades of order:

    COMPLETE     the earlier is complete before the later starts: for whatever the earlier writes
    FOLLOW       the later comes behind on the same array, each of its rows after the same row of the earlier:
                 enough for two matmuls that add into one accumulator box
    RELEASE      the earlier has ended before the later starts: enough when the earlier only reads what the later
                 writes

An ACCUMULATE dependence gives FOLLOW, a WRITE_AFTER_READ gives RELEASE (COMPLETE unless the earlier is a matmul), all
others give COMPLETE. A path gives the grade of its first dependence; if that is FOLLOW, it gives the grade of the rest
of the path, because a matmul that follows another also completes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from simulator.tileprogram.box_index import Nearby
from simulator.tileprogram.boxes import Box, box_of, covers, holds, meet, moved, overlap, without
from simulator.tileprogram.program import Access, Buffer, DependenceKind, Instruction, Opcode, Operand, Space

Location = tuple[int, int, int]
"""(space, target, slot): a piece of memory. Boxes in one location are compared as boxes. Arguments, and slots of one
buffer, never share a byte; slots of two buffers at the same address do, and are compared run by run.
"""

IN_ORDER = (Opcode.VECTOR, Opcode.DIRECT)
"""Opcodes with one in-order unit each, whose instructions complete before the next starts."""

ACCUMULATOR = 2
"""The index of a matmul's accumulator among its operands."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """An access for which later accesses may have to wait."""

    instruction: int
    box: Box
    accumulates: bool


class _Seens(Nearby[_Seen]):
    """The reads of one location, or its writes, by their boxes."""

    def touching(self, box: Box, meets: Callable[[Box, Box], bool] = overlap) -> Iterator[_Seen]:
        for other in self.near(box):
            if meets(other, box):
                yield from self.at(other)

    def forget(self, box: Box, held: Callable[[Box, Box], bool] = covers) -> None:
        """Drops the accesses, or ends of them, that `box` covers: later instructions wait for the covering access."""
        for other in self.near(box):
            if held(box, other):
                self.pop(other)
            elif overlap(other, box) and (left := without(other, box)) != other:
                for seen in self.pop(other):
                    self.add(left, replace(seen, box=left))


@dataclass(slots=True)
class _History:
    writes: _Seens = field(default_factory=_Seens)
    reads: _Seens = field(default_factory=_Seens)


# Kinds from the strongest on: of several reasons to wait for one instruction, the strongest is kept.
_STRENGTH = (
    DependenceKind.READ_AFTER_WRITE,
    DependenceKind.WRITE_AFTER_WRITE,
    DependenceKind.REUSE,
    DependenceKind.ACCUMULATE,
    DependenceKind.WRITE_AFTER_READ,
)


class Grade(IntEnum):
    """The strength of an order between two instructions; see the module's docstring."""

    RELEASE = 0
    FOLLOW = 1
    COMPLETE = 2


def grade_of(kind: DependenceKind, source: Opcode) -> Grade:
    """The grade that a dependence on an instruction of opcode `source` gives."""
    if kind == DependenceKind.ACCUMULATE:
        return Grade.FOLLOW
    weak = kind == DependenceKind.WRITE_AFTER_READ and source == Opcode.MATMUL
    return Grade.RELEASE if weak else Grade.COMPLETE


def path_grade(first: Grade, rest: Grade) -> Grade:
    """The grade of a path whose first step gives `first` and whose other steps give `rest`."""
    return rest if first == Grade.FOLLOW else first


class DependenceTracker:
    """Derives dependences while a program is built: call `add` with every instruction, in program order.

    `add` returns the direct dependences of the instruction, to be stored with it, without a wait that another of the
    instruction's waits implies. Dependences within the vector or the scalar unit stay, although queue order alone would
    do, because a reader of the program wants to see them.

    With `buffers`, at their addresses, `add` also derives REUSE dependences between buffers that share bytes.
    """

    def __init__(self, buffers: Sequence[Buffer] = ()) -> None:
        self._histories: dict[Location, _History] = {}
        self._sharing = sharing(buffers)
        self._waits: list[dict[int, Grade]] = []
        self._opcodes: list[Opcode] = []

    def add(self, instruction: Instruction) -> tuple[tuple[int, DependenceKind], ...]:
        """Returns the dependences of the next instruction: (index, kind), earliest first."""
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
            history.writes.add(box, seen)
            for other, seen_from_there in self._others(operand):
                other.writes.forget(seen_from_there, holds)
                other.reads.forget(seen_from_there, holds)
        else:
            history.reads.add(box, seen)

    def _others(self, operand: Operand) -> Iterator[tuple[_History, Box]]:
        """For each slot of other buffers that shares bytes with the operand's slot: its accesses, the box in it."""
        for other, shift in self._sharing.get((operand.space, operand.target, operand.slot), ()):
            if other in self._histories:
                yield self._histories[other], moved(box_of(operand), shift)

    def _reused(self, operand: Operand) -> Iterator[int]:
        """Yields the instructions that used an operand's bytes as part of another buffer."""
        for other, box in self._others(operand):
            for seen in other.writes.touching(box, meet):
                yield seen.instruction
            for seen in other.reads.touching(box, meet) if operand.access & Access.WRITE else ():
                yield seen.instruction

    def _implied(self, earlier: int, grades: dict[int, Grade]) -> bool:
        """True if another wait orders `earlier` as firmly as a dependence on `earlier` would."""
        return any(
            path_grade(self._waits[later][earlier], grade) >= grades[earlier]
            for later, grade in grades.items()
            if earlier in self._waits[later]
        )


def _keep_strongest(found: dict[int, DependenceKind], source: int, kind: DependenceKind) -> None:
    if source not in found or _STRENGTH.index(kind) < _STRENGTH.index(found[source]):
        found[source] = kind


def sharing(buffers: Sequence[Buffer]) -> dict[Location, list[tuple[Location, int]]]:
    """For each slot, the slots of other buffers that share its bytes, and its start less the other slot's start."""
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
