# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
"""Reading the tile program off the scheduled form.

The module is first compiled to closures, one per op, then run: loops count, index arithmetic is evaluated,
subviews become boxes, and every linalg op of every iteration becomes one instruction. What an instruction costs
and waits for follows from its operands and its body alone; no name of an ATen op is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from torch_mlir import ir

from simulator.hazards import DependenceTracker
from simulator.machine import Machine
from simulator.program import (
    MAX_RANK,
    Access,
    Argument,
    Buffer,
    Instruction,
    Opcode,
    Operand,
    OpInfo,
    ProgramBuilder,
    Space,
    TileProgram,
)
from workbench.mlir.affine import affine_map, compile_expr, constant_of, loop_bounds
from workbench.mlir.bindings import (
    Index,
    Value,
    element_bytes,
    function_of,
    integer,
    integers,
    shape_of,
    space_of,
    subview_groups,
)
from workbench.mlir.context import line_of, operations, parse
from workbench.mlir.dialect import SCRATCHPAD, SLOTS
from workbench.mlir.instructions import Description, describe, lane_of


@dataclass(frozen=True, slots=True)
class Box:
    """A memref's concrete place: where it starts, its extents and its strides, in elements."""

    space: Space
    target: int
    slot: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element_bytes: int

    def operand(self, access: Access) -> Operand:
        shape, strides = self.shape, self.strides
        if len(shape) > MAX_RANK:
            kept = [axis for axis, extent in enumerate(shape) if extent != 1]
            shape, strides = tuple(shape[a] for a in kept), tuple(strides[a] for a in kept)
        return Operand(self.space, self.target, self.slot, self.offset, shape, strides, self.element_bytes, access)


@dataclass
class _State:
    """What is known while the closures run: values of index values, boxes of memrefs."""

    indices: list[int]
    boxes: list[Box]
    counters: list[int]
    """Iteration number of each loop around, outermost first."""


_Step = Callable[[_State], None]


def extract(
    located: ir.Module,
    text: str,
    kernel: str,
    origins: Sequence[str],
    machine: Machine,
) -> TileProgram:
    """The tile program of a scheduled module. `text` is the module as people read it: lines refer to it."""
    with located.context:
        return _Extractor(located, text, kernel, origins, machine).run()


@dataclass
class _Extractor:
    located: ir.Module
    text: str
    kernel: str
    origins: Sequence[str]
    machine: Machine
    index_of: dict[Value, int] = field(default_factory=dict)
    box_of: dict[Value, int] = field(default_factory=dict)

    def run(self) -> TileProgram:
        self.lines = dict(zip(operations(self.located.operation), self._lines(), strict=True))
        self.builder = ProgramBuilder(self.kernel, origin_names=list(self.origins))
        self.tracker = DependenceTracker()
        self.zeroed: dict[tuple[int, int, int], _Zeroed] = {}
        self.loops: list[str] = []
        self.bytes_used = 0
        entry = function_of(self.located).regions[0].blocks[0]
        self.boxes: list[Box] = []
        for number, argument in enumerate(entry.arguments):
            self._argument(number, argument, _is_written(argument))
        steps = self._block(entry)
        state = _State([0] * len(self.index_of), self.boxes + [_NOWHERE] * (len(self.box_of) - len(self.boxes)), [])
        for step in steps:
            step(state)
        for zeroed in list(self.zeroed.values()):
            self._flush((zeroed.operand,))
        return self.builder.build()

    def _lines(self) -> list[int]:
        """The line of each op, in the order of the text."""
        module = parse(self.text, self.located.context)  # named: an op does not keep its module alive
        return [line_of(op.location) or 0 for op in operations(module.operation)]

    def _argument(self, number: int, argument: Value, written: bool) -> None:
        memref = ir.MemRefType(argument.type)
        strides, offset = memref.get_strides_and_offset()
        size = element_bytes(memref)
        shape = tuple(memref.shape)
        self.builder.arguments.append(Argument(f"arg{number}", shape, tuple(strides), offset, size, written))
        self.box_of[argument] = len(self.box_of)
        self.boxes.append(Box(Space.DRAM, number, 0, offset, shape, tuple(strides), size))

    def _block(self, block: ir.Block) -> list[_Step]:
        steps: list[_Step] = []
        for op in block.operations:
            step = self._op(op.operation)
            if step is not None:
                steps.append(step)
        return steps

    def _op(self, op: ir.Operation) -> _Step | None:
        name = op.name
        if name == "scf.for":
            return self._loop(op)
        if name in ("affine.min", "affine.max", "affine.apply"):
            return self._index(op)
        if name == "memref.alloc":
            return self._alloc(op)
        if name == "memref.subview":
            return self._subview(op)
        if name in ("memref.expand_shape", "memref.collapse_shape", "memref.cast", "memref.reinterpret_cast"):
            return self._reshape(op)
        if name.startswith("linalg."):
            return self._instruction(op)
        return None  # constants are read where they are used; deallocations cost nothing

    def _loop(self, op: ir.Operation) -> _Step:
        low, high, stride = loop_bounds(op)
        body = op.regions[0].blocks[0]
        variable = self._new_index(body.arguments[0])
        self.loops.append(f"i{len(self.loops)}")
        steps = self._block(body)
        self.loops.pop()

        def run(state: _State) -> None:
            state.counters.append(0)
            for number, value in enumerate(range(low, high, stride)):
                state.indices[variable] = value
                state.counters[-1] = number
                for step in steps:
                    step(state)
            state.counters.pop()

        return run

    def _new_index(self, value: Value) -> int:
        return self.index_of.setdefault(value, len(self.index_of))

    def _read(self, value: Index) -> Callable[[_State], int]:
        """How to get an index operand's value while running."""
        constant = value if isinstance(value, int) else constant_of(value)
        if constant is not None:
            return lambda state: constant
        assert not isinstance(value, int)
        position = self._new_index(value)
        return lambda state: state.indices[position]

    def _index(self, op: ir.Operation) -> _Step:
        target = self._new_index(op.results[0])
        operands = [self._read(operand) for operand in op.operands]
        results = [compile_expr(expr) for expr in affine_map(op).results]
        choose = max if op.name == "affine.max" else min

        def run(state: _State) -> None:
            dims = [read(state) for read in operands]
            state.indices[target] = choose(result(dims) for result in results)

        return run

    def _alloc(self, op: ir.Operation) -> _Step:
        kind = ir.MemRefType(op.results[0].type)
        assert space_of(op.results[0]) == SCRATCHPAD, "the scheduled form allocates in the scratchpad only"
        slots = integer(op, SLOTS) if SLOTS in op.attributes else 1
        shape = tuple(kind.shape)
        size = element_bytes(kind)
        tile = shape[1:] if slots > 1 else shape
        elements = 1
        for extent in tile:
            elements *= extent
        slot_bytes = self.machine.pad_to_lanes(elements * size)
        number = len(self.builder.buffers)
        self.builder.buffers.append(Buffer(f"buf{number}", slot_bytes, slots, self.bytes_used, size))
        self.bytes_used += slot_bytes * slots
        box = Box(Space.SCRATCHPAD, number, -slots if slots > 1 else 0, 0, shape, _row_major(shape), size)
        place = self.box_of.setdefault(op.results[0], len(self.box_of))

        def run(state: _State) -> None:
            state.boxes[place] = box

        return run

    def _subview(self, op: ir.Operation) -> _Step:
        source = self.box_of[op.operands[0]]
        place = self.box_of.setdefault(op.results[0], len(self.box_of))
        offsets, sizes, steps = ([self._read(each) for each in group] for group in subview_groups(op))
        kept = _kept_axes(op)

        def run(state: _State) -> None:
            base = state.boxes[source]
            starts = [read(state) for read in offsets]
            slot, strides, first = base.slot, base.strides, 0
            if slot < 0:  # the whole multi-slot buffer: its leading axis chooses the slot
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

    def _reshape(self, op: ir.Operation) -> _Step:
        """A reshape of static extents: the same first element, the strides its type says."""
        source = self.box_of[op.operands[0]]
        place = self.box_of.setdefault(op.results[0], len(self.box_of))
        kind = ir.MemRefType(op.results[0].type)
        shape, strides = tuple(kind.shape), tuple(kind.get_strides_and_offset()[0])

        def run(state: _State) -> None:
            base = state.boxes[source]
            state.boxes[place] = Box(
                base.space, base.target, base.slot, base.offset, shape, strides, base.element_bytes
            )

        return run

    def _instruction(self, op: ir.Operation) -> _Step:
        description = describe(op)
        places = [self.box_of[value] for value in description.memrefs]
        number = len(self.builder.ops)
        self.builder.ops.append(OpInfo(op.name, self.lines[op], tuple(self.loops), description.class_counts))
        accesses = description.accesses

        def run(state: _State) -> None:
            boxes = [state.boxes[place] for place in places]
            operands = tuple(box.operand(access) for box, access in zip(boxes, accesses, strict=True))
            self._emit(description, number, tuple(state.counters), boxes, operands)

        return run

    def _emit(
        self,
        description: Description,
        number: int,
        iteration: tuple[int, ...],
        boxes: list[Box],
        operands: tuple[Operand, ...],
    ) -> None:
        extent, reduction = _within_rank(description.extent([box.shape for box in boxes]), description.reduction)
        opcode = description.opcode(operands)
        vector = opcode == Opcode.VECTOR
        if description.zeroes:
            self._flush(operands)
            self.zeroed[_place(operands[0])] = _Zeroed(description, number, iteration, operands[0], extent)
            return
        accumulates, origins = description.role == "contraction", description.origins
        if accumulates and self._zero_of(operands[-1]) is not None:
            zeroed = self.zeroed.pop(_place(operands[-1]))
            accumulates, origins = False, tuple(sorted({*origins, *zeroed.description.origins}))
            operands = (*operands[:-1], replace(operands[-1], access=Access.WRITE))
        self._flush(operands)
        self._add(
            Instruction(
                opcode=opcode,
                op=number,
                iteration=iteration,
                operands=operands,
                extent=extent,
                reduction=reduction if vector else 0,
                lane=lane_of(extent, reduction, self.machine) if vector else -1,
                accumulates=accumulates,
                origins=origins,
            )
        )

    def _zero_of(self, accumulator: Operand) -> _Zeroed | None:
        """The pending fill that this accumulator starts from."""
        zeroed = self.zeroed.get(_place(accumulator))
        same = zeroed is not None and replace(zeroed.operand, access=accumulator.access) == accumulator
        return zeroed if same else None

    def _flush(self, operands: tuple[Operand, ...]) -> None:
        """Pending fills of what these operands touch become vector instructions after all."""
        for operand in operands:
            zeroed = self.zeroed.pop(_place(operand), None)
            if zeroed is not None:
                lane = lane_of(zeroed.extent, 0, self.machine)
                self._add(
                    Instruction(
                        Opcode.VECTOR,
                        zeroed.op,
                        zeroed.iteration,
                        (zeroed.operand,),
                        zeroed.extent,
                        lane=lane,
                        origins=zeroed.description.origins,
                    )
                )

    def _add(self, instruction: Instruction) -> None:
        self.builder.add(replace(instruction, dependences=self.tracker.add(instruction)))


@dataclass(frozen=True, slots=True)
class _Zeroed:
    """A fill with zero that waits for what comes next: a matmul can start from zero by itself.

    An array that begins a K chain overwrites its accumulators, so such a fill is no work of its own.
    """

    description: Description
    op: int
    iteration: tuple[int, ...]
    operand: Operand
    extent: tuple[int, ...]


def _place(operand: Operand) -> tuple[int, int, int]:
    return operand.space, operand.target, operand.slot


_NOWHERE = Box(Space.DRAM, 0, 0, 0, (), (), 1)


def _within_rank(extent: tuple[int, ...], reduction: int) -> tuple[tuple[int, ...], int]:
    """An iteration space of at most `MAX_RANK` dims: one of more leaves out dims of one point."""
    if len(extent) <= MAX_RANK:
        return extent, reduction
    kept = [dim for dim, size in enumerate(extent) if size != 1]
    mask = sum(1 << place for place, dim in enumerate(kept) if reduction >> dim & 1)
    return tuple(extent[dim] for dim in kept), mask


def _is_written(argument: Value) -> bool:
    """Whether some copy stores to an argument."""
    for use in argument.uses:
        op = use.owner.operation
        if op.name == "linalg.copy" and use.operand_number == 1:
            return True
        if not op.name.startswith("linalg.") and any(_is_written(result) for result in op.results):
            return True
    return False


def _kept_axes(op: ir.Operation) -> list[int]:
    """Axes of a subview that its result keeps: unit extents may be dropped."""
    shape, sizes = shape_of(op.results[0]), integers(op, "static_sizes")
    kept: list[int] = []
    for axis, size in enumerate(sizes):
        left, wanted = len(sizes) - axis, len(shape) - len(kept)
        if wanted and (left == wanted or size != 1 or shape[len(kept)] == 1):
            kept.append(axis)
    assert len(kept) == len(shape), "a subview drops unit extents only"
    return kept


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for axis in reversed(range(len(shape) - 1)):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)
