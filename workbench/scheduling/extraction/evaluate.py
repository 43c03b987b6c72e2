"""Compiles a scheduled module to Python closures; running them unrolls its loops and computes each index and each
memref's box.

Each op is compiled once, which makes unrolling fast. A subclass turns linalg ops and unstaged accesses into
instructions; this class evaluates only the loops and subviews around them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from torch_mlir import ir

from workbench.ground.errors import DataDecides, not_yet
from workbench.mlir.affine import compile_expr, compile_map, constant_of, forall_bounds
from workbench.mlir.bindings import Index, Value, integer, kept_axes, maker, segments, subview_groups
from workbench.mlir.context import operations
from workbench.mlir.instruction_forms import op_class
from workbench.scheduling.extraction.memref_boxes import NOWHERE, Box
from workbench.scheduling.extraction.scalar_index import Number, larger, scalar_function, smaller


@dataclass
class State:
    """The state while the closures run: the values of indices, the boxes of memrefs."""

    indices: list[Number]
    boxes: list[Box]
    counters: list[int] = field(default_factory=list[int])
    """Iteration number of each surrounding loop, outermost first."""
    mask: Number = True
    """In a loop whose iterations are evaluated at once: true for each iteration that takes the current branch."""
    touched: list[Any] = field(default_factory=list[Any])
    """Unstaged accesses of the loop whose iterations are evaluated at once."""
    core: int = 0
    """The core of the op being run."""


Step = Callable[[State], None]
Read = Callable[[State], Number]


class Evaluator:
    """Compiles blocks of the scheduled form to closures over a `State`."""

    def __init__(self, kernel: str, lines: dict[ir.Operation, int]) -> None:
        self.kernel, self.lines = kernel, lines
        self.index_of: dict[Value, int] = {}
        self.box_of: dict[Value, int] = {}
        self.loops: list[str] = []

    only: slice = slice(None)
    """The iterations that run of every `scf.for`."""

    # What a subclass adds

    def place_buffer(self, op: ir.Operation, core: int) -> Box:
        """The box of a buffer in a core's scratchpad."""
        raise NotImplementedError

    def core_of(self, number: int) -> int:
        """The core that runs an iteration of an `scf.forall`; ops outside run on the core of iteration 0."""
        return 0

    def meet(self, op: ir.Operation, cores: frozenset[int], step: str) -> Step:
        """Returns a step at which cores meet, before (`fork`) or after (`join`) an `scf.forall`."""
        return _nothing

    def linalg(self, op: ir.Operation) -> Step:
        raise NotImplementedError

    def access(self, op: ir.Operation) -> Step:
        """Compiles a load or store of one element."""
        raise NotImplementedError

    def access_loop(self, op: ir.Operation) -> Step:
        """Compiles an innermost loop that loads or stores single elements."""
        raise NotImplementedError

    # The form itself

    def state(self, boxes: list[Box]) -> State:
        """A new state for the closures compiled so far, with the boxes of the function's arguments."""
        boxes = boxes + [NOWHERE] * (len(self.box_of) - len(boxes))
        return State([0] * len(self.index_of), boxes, core=self.core_of(0))

    def computation(self, ops: list[ir.Operation]) -> Step | None:
        """Compiles scalar arithmetic on data; None inside an access loop, which counts its body's operations itself."""
        raise NotImplementedError

    def block(self, block: ir.Block) -> list[Step]:
        return self.steps([op.operation for op in block.operations])

    def steps(self, ops: list[ir.Operation]) -> list[Step]:
        found: list[Step | None] = []
        computed: list[ir.Operation] = []
        for op in ops:
            if computed and (len(op.regions) or op.name in ("memref.load", "memref.store")):
                found.append(self.computation(computed))
                computed = []
            found.append(self.op(op))
            if found[-1] is None and op_class(op) is not None:
                computed.append(op)
        if computed:
            found.append(self.computation(computed))
        return [step for step in found if step is not None]

    def op(self, op: ir.Operation) -> Step | None:
        name = op.name
        if name in ("scf.for", "affine.for"):
            return self.access_loop(op) if is_access_loop(op) else self.loop(op)
        if name == "scf.if":
            return self.branch(op)
        if name == "scf.forall":
            return self.spread(op)
        if name in ("affine.min", "affine.max", "affine.apply"):
            return self.index(op)
        if name == "memref.alloc":
            return self.alloc(op)
        if name == "memref.subview":
            return self.subview(op)
        if name == "memref.reinterpret_cast":
            return self.reinterpreted(op)
        if name in ("memref.expand_shape", "memref.collapse_shape", "memref.cast"):
            return self.reshape(op)
        if name in ("memref.load", "memref.store"):
            return self.access(op)
        if name.startswith("linalg."):
            return self.linalg(op)
        if len(op.regions):  # the body of an unknown op is work and must not be skipped
            raise not_yet(
                f"Reading a program off {name}", "Write scf.for, or scf.forall for the parallel shares of cores."
            )
        return self.scalar(op)  # constants are read where they are used; deallocations cost nothing

    def bounds(self, op: ir.Operation) -> tuple[Read, Read, Read]:
        """Closures for a loop's first value, its end, and its step."""
        if op.name == "scf.for":
            low, high, step = (self.read(operand) for operand in list(op.operands)[:3])
            return low, high, step
        counts, operands = segments(op), list(op.operands)
        lower, upper = operands[: counts[0]], operands[counts[0] : counts[0] + counts[1]]
        return (
            self._bound(op, "lowerBoundMap", lower, larger),
            self._bound(op, "upperBoundMap", upper, smaller),
            self.read(integer(op, "step")),
        )

    def _bound(
        self, op: ir.Operation, name: str, operands: list[Value], choose: Callable[[Number, Number], Number]
    ) -> Read:
        reads = [self.read(operand) for operand in operands]
        results = [compile_expr(expr) for expr in ir.AffineMapAttr(op.attributes[name]).value.results]
        return lambda state: reduce(choose, [result([read(state) for read in reads]) for result in results])

    def loop(self, op: ir.Operation) -> Step:
        low, high, every = self.bounds(op)
        body = op.regions[0].blocks[0]
        variable = self.new_index(body.arguments[0])
        self.loops.append(f"i{len(self.loops)}")
        steps = self.block(body)
        self.loops.pop()

        def run(state: State) -> None:
            state.counters.append(0)
            for number, value in enumerate(range(low(state), high(state), every(state) or 1)[self.only]):
                state.indices[variable] = value
                state.counters[-1] = number
                for step in steps:
                    step(state)
            state.counters.pop()

        return run

    def spread(self, op: ir.Operation) -> Step:
        """Compiles an `scf.forall`: its iterations are dealt to cores, which run in parallel and meet at its end."""
        values = [range(*bounds) for bounds in forall_bounds(op)]
        body = op.regions[0].blocks[0]
        variables = [self.new_index(argument) for argument in body.arguments]
        self.loops += [f"c{len(self.loops) + place}" for place in range(len(values))]
        steps = self.steps([item.operation for item in list(body.operations)[:-1]])
        del self.loops[-len(values) :]
        points = list(itertools.product(*(enumerate(each) for each in values)))
        cores = frozenset(self.core_of(number) for number in range(len(points)))
        fork, join = (self.meet(op, cores, step) for step in ("fork", "join"))

        def run(state: State) -> None:
            fork(state)
            depth = len(state.counters)
            for number, point in enumerate(points):
                state.core = self.core_of(number)
                state.counters[depth:] = [count for count, _ in point]
                for variable, (_, value) in zip(variables, point, strict=True):
                    state.indices[variable] = value
                for step in steps:
                    step(state)
            del state.counters[depth:]
            state.core = self.core_of(0)
            join(state)

        return run

    def branch(self, op: ir.Operation) -> Step:
        """Compiles an `scf.if` on an index condition; for many iterations at once, both branches run under a mask."""
        condition = self.read(op.operands[0])
        then, otherwise = ([self.block(block) for block in region.blocks] for region in op.regions)
        then_steps, other_steps = (blocks[0] if blocks else [] for blocks in (then, otherwise))

        def run(state: State) -> None:
            taken, outer = condition(state), state.mask
            if np.ndim(taken) == 0:
                for step in then_steps if taken else other_steps:
                    step(state)
                return
            for mask, steps in ((taken, then_steps), (~taken, other_steps)):
                state.mask = outer & mask
                for step in steps:
                    step(state)
            state.mask = outer

        return run

    def new_index(self, value: Value) -> int:
        return self.index_of.setdefault(value, len(self.index_of))

    def read(self, value: Index) -> Read:
        """A closure that returns an index operand's value."""
        constant = value if isinstance(value, int) else constant_of(value)
        if constant is not None:
            return lambda state: constant
        assert not isinstance(value, int)
        if value not in self.index_of:
            op = maker(value)
            raise DataDecides(self.kernel, self.lines[op] if op is not None else 0, op.name if op else "an argument")
        position = self.index_of[value]
        return lambda state: state.indices[position]

    def index(self, op: ir.Operation) -> Step:
        operands = [self.read(operand) for operand in op.operands]
        results = compile_map(op)
        target = self.new_index(op.results[0])
        choose = larger if op.name == "affine.max" else smaller

        def run(state: State) -> None:
            dims = [read(state) for read in operands]
            state.indices[target] = reduce(choose, [result(dims) for result in results])

        return run

    def scalar(self, op: ir.Operation) -> Step | None:
        """Compiles index arithmetic; None for arithmetic on data, whose values the tile program does not compute."""
        function = scalar_function(op)
        if function is None:
            return None
        if not all(constant_of(operand) is not None or operand in self.index_of for operand in op.operands):
            return None
        operands = [self.read(operand) for operand in op.operands]
        target = self.new_index(op.results[0])

        def run(state: State) -> None:
            state.indices[target] = function(*[read(state) for read in operands])

        return run

    def alloc(self, op: ir.Operation) -> Step:
        place = self.box_of.setdefault(op.results[0], len(self.box_of))
        made: dict[int, Box] = {}

        def run(state: State) -> None:
            if state.core not in made:
                made[state.core] = self.place_buffer(op, state.core)
            state.boxes[place] = made[state.core]

        return run

    def subview(self, op: ir.Operation) -> Step:
        source = self.box_of[op.operands[0]]
        place = self.box_of.setdefault(op.results[0], len(self.box_of))
        offsets, sizes, steps = ([self.read(each) for each in group] for group in subview_groups(op))
        kept = kept_axes(op)

        def run(state: State) -> None:
            base = state.boxes[source]
            starts = [read(state) for read in offsets]
            slot, strides, first = base.slot, base.strides, 0
            if slot < 0:
                slot, first = starts[0], 1
            moved = sum(a * b for a, b in zip(starts[first:], strides[first:], strict=True))
            extents = [read(state) for read in sizes]
            scaled = [stride * read(state) for stride, read in zip(strides, steps, strict=True)]
            state.boxes[place] = Box(
                base.space,
                base.target,
                slot,
                base.offset + moved,
                tuple(extents[axis] for axis in kept),
                tuple(scaled[axis] for axis in kept),
                base.element_bytes,
            )

        return run

    def reinterpreted(self, op: ir.Operation) -> Step:
        """Compiles a `reinterpret_cast`: new extents and strides, with an offset from the start of the memory."""
        source = self.box_of[op.operands[0]]
        place = self.box_of.setdefault(op.results[0], len(self.box_of))
        offsets, sizes, steps = ([self.read(each) for each in group] for group in subview_groups(op))

        def run(state: State) -> None:
            base = state.boxes[source]
            shape, strides = tuple(read(state) for read in sizes), tuple(read(state) for read in steps)
            offset = offsets[0](state)
            state.boxes[place] = Box(base.space, base.target, base.slot, offset, shape, strides, base.element_bytes)

        return run

    def reshape(self, op: ir.Operation) -> Step:
        """Compiles a reshape with static extents; the strides are those of its result type."""
        source = self.box_of[op.operands[0]]
        place = self.box_of.setdefault(op.results[0], len(self.box_of))
        kind = ir.MemRefType(op.results[0].type)
        shape, laid = tuple(kind.shape), tuple(kind.get_strides_and_offset()[0])

        def run(state: State) -> None:
            base = state.boxes[source]
            state.boxes[place] = Box(base.space, base.target, base.slot, base.offset, shape, laid, base.element_bytes)

        return run


def _nothing(state: State) -> None:
    """The step that does nothing."""


def is_access_loop(op: ir.Operation) -> bool:
    """True if a loop is innermost and loads or stores single elements or has results."""
    inner = list(operations(op))[1:]
    touches = len(op.results) > 0 or any(each.name in ("memref.load", "memref.store") for each in inner)
    return touches and not any(
        each.name in ("scf.for", "affine.for", "scf.forall") or each.name.startswith("linalg.") for each in inner
    )
