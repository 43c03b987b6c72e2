"""Estimates the size of a program from its loops, before its instructions are extracted one by one."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass

from torch_mlir import ir

from simulator.machine.machine import Machine
from simulator.tileprogram.program import Space
from workbench.ground.errors import BadOption, TooManyInstructions
from workbench.mlir.bindings import (
    Value,
    ancestor_in,
    element_bytes,
    function_of,
    integer,
    makers_behind,
    named,
    space_of,
)
from workbench.mlir.context import operations
from workbench.mlir.dialect import SCRATCHPAD, SLOTS
from workbench.mlir.memrefs import uses_of
from workbench.scheduling.extraction.evaluate import Evaluator, State, Step
from workbench.scheduling.extraction.memref_boxes import Box

MOST = "ATEN_WORKBENCH_MOST_INSTRUCTIONS"
"""Environment variable: the most instructions of a program that is extracted."""

USUAL_MOST = 2_000_000
"""Extracting a kernel of this many instructions takes minutes and a few GB (`benchmarks/small_machines.py`)."""


def checked_count(module: ir.Module, kernel: str, machine: Machine) -> int:
    """Estimates the number of instructions of a scheduled module's program; raises `TooManyInstructions` above the
    limit."""
    most = _most()
    counter = _Counter(kernel, most)
    count = counter.run(function_of(module))
    if count > most:
        busiest = max(counter.tallies.values(), key=lambda each: each.count)
        raise TooManyInstructions(
            kernel, count, most, busiest.op, busiest.count, busiest.rounds, machine.scratchpad_bytes, MOST
        )
    return count


def _most() -> int:
    """The most instructions of a program that is extracted, from the environment or the default."""
    given = os.environ.get(MOST, "") or str(USUAL_MOST)
    if not re.fullmatch("[0-9]{1,18}", given):
        raise BadOption(f"{MOST}={given!r} is no count of instructions; expected a whole number, such as {USUAL_MOST}")
    return int(given)


def slot_bytes(op: ir.Operation, machine: Machine) -> tuple[int, int]:
    """Bytes of one slot of a `memref.alloc` in the scratchpad, and its slots."""
    kind = ir.MemRefType(op.results[0].type)
    slots = integer(op, SLOTS) if SLOTS in op.attributes else 1
    shape = tuple(kind.shape)
    return machine.pad_to_lanes(math.prod(shape[1:] if slots > 1 else shape) * element_bytes(kind)), slots


def buffers_at_once(module: ir.Module, machine: Machine) -> list[tuple[str, int]]:
    """(name, bytes) of the scratchpad buffers of one outer loop of a core, or of one op outside of loops: these are in
    use at once.

    Of all these loops and ops, the one with the most bytes. The program needs at least that much, and may need more.
    """
    blocks = [function_of(module).regions[0].blocks[0]]
    blocks += [op.regions[0].blocks[0] for op in named(module, "scf.forall")]
    inside: dict[ir.Operation, list[tuple[str, int]]] = {}
    number = 0
    for block in blocks:
        for op in (each.operation for each in block.operations):
            if op.name != "memref.alloc" or space_of(op.results[0]) != SCRATCHPAD:
                continue
            size, slots = slot_bytes(op, machine)
            for user in {ancestor_in(user, block) for user, _ in uses_of(op.results[0])}:
                if user.name in ("scf.for", "affine.for") or user.name.startswith("linalg."):
                    inside.setdefault(user, []).append((f"buf{number}", size * slots))
            number += 1
    return max(inside.values(), key=lambda each: sum(size for _, size in each), default=list[tuple[str, int]]())


@dataclass
class _Tally:
    """An op, its number of runs, and in `rounds` the iterations of each surrounding loop whose iterations are alike."""

    op: str
    count: int = 0
    rounds: tuple[int, ...] = ()


class _Enough(Exception):
    pass


class _Counter(Evaluator):
    """Runs a module's loops with empty bodies. If all iterations of a loop are alike, one runs and counts for all."""

    def __init__(self, kernel: str, most: int) -> None:
        super().__init__(kernel, {})
        self.most, self.walked = most, 0
        self.weight, self.rounds = 1, list[int]()
        self.tallies: dict[ir.Operation, _Tally] = {}

    def run(self, function: ir.Operation) -> int:
        """The number of instructions of the function; counting stops after `most` steps."""
        entry = function.regions[0].blocks[0]
        for argument in entry.arguments:
            self.box_of[argument] = len(self.box_of)
        steps = self.block(entry)
        state = self.state([])
        try:
            for step in steps:
                step(state)
        except _Enough:
            pass
        return sum(tally.count for tally in self.tallies.values())

    def place_buffer(self, op: ir.Operation, core: int) -> Box:
        return Box(Space.SCRATCHPAD, 0, 0, 0, (), (), 1)

    def linalg(self, op: ir.Operation) -> Step:
        tally = self.tallies.setdefault(op, _Tally(op.name))

        def run(state: State) -> None:
            tally.count += self.weight
            tally.rounds = tuple(self.rounds)
            self.walked += 1
            if self.walked > self.most:
                raise _Enough

        return run

    access = access_loop = linalg

    def computation(self, ops: list[ir.Operation]) -> Step:
        return self.linalg(ops[0])

    def _nowhere(self, op: ir.Operation) -> None:
        """Makes no step for an alloc or a view: the place of data does not change the count."""

    alloc = subview = reinterpreted = reshape = _nowhere  # pyright: ignore[reportAssignmentType]

    def loop(self, op: ir.Operation) -> Step:
        if op.regions[0].blocks[0].arguments[0] in _deciding(op):
            return super().loop(op)
        low, high, every = self.bounds(op)
        variable = self.new_index(op.regions[0].blocks[0].arguments[0])
        steps = self.block(op.regions[0].blocks[0])

        def run(state: State) -> None:
            values = range(low(state), high(state), every(state) or 1)
            if not values:
                return
            state.indices[variable] = values[0]
            outside, self.weight = self.weight, self.weight * len(values)
            self.rounds.append(len(values))
            for step in steps:
                step(state)
            self.rounds.pop()
            self.weight = outside

        return run


def _deciding(loop: ir.Operation) -> set[Value]:
    """Values that decide how often inner ops run: bounds of loops, conditions, and the values behind these."""
    inner = [op for op in operations(loop) if op != loop and op.name in ("scf.for", "affine.for", "scf.if")]
    behind = makers_behind(value for op in inner for value in op.operands)
    return {value for op in (*inner, *behind) for value in op.operands}
