"""Extracts the tile program from the scheduled form.

Every linalg op of every iteration becomes one instruction; a product becomes one for each array that takes a share.
Every innermost loop of unstaged accesses becomes one instruction, and so does scalar arithmetic between loops.
An instruction's costs and dependences follow from its operands and its body alone, never from the name of an ATen op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from torch_mlir import ir

from simulator.machine.machine import Machine
from simulator.tileprogram.boxes import box_of, overlap
from simulator.tileprogram.buffer_addresses import placed
from simulator.tileprogram.hazards import DependenceTracker
from simulator.tileprogram.program import (
    MAX_RANK,
    Access,
    Argument,
    Buffer,
    Instruction,
    Opcode,
    Operand,
    OpInfo,
    Space,
    TileProgram,
)
from simulator.tileprogram.program_builder import ProgramBuilder
from simulator.units.vector import best_lanes
from workbench.ground.environment.progress import so_far
from workbench.ground.errors import not_yet
from workbench.ir.graph import row_major
from workbench.mlir.bindings import Value, element_bytes, function_of, space_of
from workbench.mlir.context import line_of, operations, parse
from workbench.mlir.dialect import SCRATCHPAD
from workbench.mlir.indexed_moves import IndexedOp, shift
from workbench.mlir.instruction_forms import Description, class_counts, describe, widest_number
from workbench.mlir.location_ids import origins_of
from workbench.scheduling.extraction.array_sharing import shared
from workbench.scheduling.extraction.direct_accesses import Touch, direct_operands, touch
from workbench.scheduling.extraction.evaluate import Evaluator, State, Step
from workbench.scheduling.extraction.lane_layout import Layouts
from workbench.scheduling.extraction.loop_carried import carried_chains
from workbench.scheduling.extraction.memref_boxes import Box, argument_box
from workbench.scheduling.extraction.program_size import checked_count, slot_bytes


def extract(
    located: ir.Module,
    text: str,
    kernel: str,
    origins: Sequence[str],
    machine: Machine,
    anchor: int = 0,
    rounds: slice = slice(None),
) -> TileProgram:
    """The tile program of a scheduled module. The instructions' line numbers refer to `text`, the module as displayed.

    An op without an origin, as in hand-written text, comes from the node `anchor`. With `rounds`, only these iterations
    of every loop are extracted.
    """
    count = checked_count(located, kernel, machine)
    with located.context:
        lines = dict(zip(operations(located.operation), _lines(text, located.context), strict=True))
        extractor = _Extractor(kernel, lines, origins, machine, anchor)
        extractor.only, extractor.expected = rounds, count
        return extractor.run(located)


class _Extractor(Evaluator):
    """Runs the module and collects its instructions."""

    def __init__(
        self, kernel: str, lines: dict[ir.Operation, int], origins: Sequence[str], machine: Machine, anchor: int
    ) -> None:
        super().__init__(kernel, lines)
        self.machine, self.anchor = machine, anchor
        self.builder = ProgramBuilder(kernel, origin_names=list(origins))
        self.tracker = DependenceTracker()
        self.layouts = Layouts()
        self.zeroed: dict[tuple[int, int, int], list[Instruction]] = {}
        """Zero fills by the slot they fill, held back until an op touches it: a matmul needs no such fill, because an
        array that begins a K chain overwrites its accumulators. That fill then becomes no instruction."""
        self.bytes_used: dict[int, int] = {}
        self.expected = 0
        self.shares = machine.shares
        self.together: frozenset[int] = frozenset(range(machine.core.count))
        """Cores that are synchronized: all at the program's start, and the cores of a barrier until one goes on."""

    def run(self, module: ir.Module) -> TileProgram:
        entry = function_of(module).regions[0].blocks[0]
        boxes = [argument_box(number, argument) for number, argument in enumerate(entry.arguments)]
        for number, (argument, box) in enumerate(zip(entry.arguments, boxes, strict=True)):
            self.box_of[argument] = number
            written = _is_written(argument)
            self.builder.arguments.append(
                Argument(f"arg{number}", box.shape, box.strides, box.offset, box.element_bytes, written)
            )
        steps = self.block(entry)
        state = self.state(boxes)
        for step in steps:
            step(state)
        self._flush_all()
        for number, contiguous in self.layouts.contiguous().items():
            if self.builder.ops[number].walks:
                self.builder.ops[number] = replace(self.builder.ops[number], contiguous=contiguous)
        return best_lanes(placed(self.builder.build(), self.machine.scratchpad_bytes), self.machine)

    def core_of(self, number: int) -> int:
        return self.shares[number % len(self.shares)]

    def meet(self, op: ir.Operation, cores: frozenset[int], step: str) -> Step:
        number = len(self.builder.ops)
        self.builder.ops.append(OpInfo(f"{op.name} {step}", self.lines[op], tuple(self.loops)))
        origins = self._origins(op)

        def run(state: State) -> None:
            self._flush_all()
            if len(cores) > 1 and (step == "join" or not cores <= self.together):
                for core in sorted(cores):
                    row = Instruction(Opcode.BARRIER, number, tuple(state.counters), (), (len(cores),), origins=origins)
                    self._add(row, core)
                self.together = cores

        return run

    def place_buffer(self, op: ir.Operation, core: int) -> Box:
        assert space_of(op.results[0]) == SCRATCHPAD, "the scheduled form allocates only in the scratchpad"
        kind = ir.MemRefType(op.results[0].type)
        shape, size = tuple(kind.shape), element_bytes(kind)
        padded, slots = slot_bytes(op, self.machine)
        number = len(self.builder.buffers)
        used = self.bytes_used.get(core, 0)
        self.builder.buffers.append(Buffer(f"buf{number}", padded, slots, used, size, core))
        self.bytes_used[core] = used + padded * slots
        return Box(Space.SCRATCHPAD, number, -slots if slots > 1 else 0, 0, shape, row_major(shape), size)

    def linalg(self, op: ir.Operation) -> Step:
        description = describe(op)
        if not description.origins:
            description = replace(description, origins=self._origins(op))
        places = [self.box_of[value] for value in description.memrefs]
        number = self._op_info(op, description.class_counts, description)
        accesses = description.accesses
        chosen = self._chosen(description.indexed) if description.indexed else None

        def run(state: State) -> None:
            boxes = [state.boxes[place] for place in places]
            if any(0 in box.shape for box in boxes):
                return  # a ragged tile may have nothing to copy or to fill
            if chosen is not None:
                boxes[-1] = chosen(state, boxes[-1], description.extent([box.shape for box in boxes]))
            operands = tuple(box.operand(access) for box, access in zip(boxes, accesses, strict=True))
            self._emit(description, number, state, boxes, operands)

        return run

    def _chosen(self, indexed: IndexedOp) -> Callable[[State, Box, tuple[int, ...]], Box]:
        """A closure for the box that an indexed op may touch: the whole axis if an index chooses the position on it."""
        block = indexed.op.regions[0].blocks[0]
        starts = [None if place.operand >= 0 else shift(place.value, block, self.read) for place in indexed.places]

        def box(state: State, whole: Box, extent: tuple[int, ...]) -> Box:
            offset, shape, strides = whole.offset, list[int](), list[int]()
            for axis, (place, start) in enumerate(zip(indexed.places, starts, strict=True)):
                if start is not None:
                    offset += start(state) * whole.strides[axis]
                if indexed.walks(place):
                    shape.append(whole.shape[axis] if start is None else extent[place.loop])
                    strides.append(whole.strides[axis])
            return replace(whole, offset=offset, shape=tuple(shape), strides=tuple(strides))

        return box

    def access(self, op: ir.Operation) -> Step:
        """Compiles an access to one element: recorded inside an access loop, else an instruction of its own."""
        reads = op.name == "memref.load"  # else the first operand is the value that is stored
        memref, *indices = list(op.operands)[0 if reads else 1 :]
        place, positions = self.box_of[memref], [self.read(value) for value in indices]
        access = Access.READ if reads else Access.WRITE
        line, origins = self.lines[op], self._origins(op)
        number = -1 if self._inside_loop else self._op_info(op, class_counts([]))

        def run(state: State) -> None:
            count = len(state.mask) if np.ndim(state.mask) else 1
            where = [read(state) for read in positions]
            touched = touch(state.boxes[place], where, state.mask, count, access)
            if number < 0:
                state.touched.append(touched)
            else:
                self._emit_direct([touched], number, line, state, origins)

        return run

    _inside_loop = False

    def computation(self, ops: list[ir.Operation]) -> Step | None:
        """Compiles scalar arithmetic to one instruction without operands: the scalar unit runs in order, so the values
        are ready."""
        if self._inside_loop:
            return None
        number = self._op_info(ops[0], class_counts([op.opview for op in ops]))
        origins = tuple(sorted({origin for op in ops for origin in self._origins(op)}))

        def run(state: State) -> None:
            row = Instruction(Opcode.DIRECT, number, tuple(state.counters), (), (1,), origins=origins)
            self._add(row, state.core)

        return run

    def access_loop(self, op: ir.Operation) -> Step:
        low, high, every = self.bounds(op)
        body = op.regions[0].blocks[0]
        variable = self.new_index(body.arguments[0])
        number = self._op_info(op, class_counts(list(body.operations)))
        self.builder.ops[number] = replace(self.builder.ops[number], carried=carried_chains(op))
        line, origins = self.lines[op], self._origins(op)
        self._inside_loop = True
        steps = self.block(body)
        self._inside_loop = False

        def run(state: State) -> None:
            values = np.arange(low(state), high(state), every(state), dtype=np.int64)
            if not len(values):
                return
            state.indices[variable], state.mask, state.touched = values, np.ones(len(values), bool), []
            for step in steps:
                step(state)
            self._emit_direct(state.touched, number, line, state, origins, len(values))
            state.mask = True

        return run

    def _op_info(self, op: ir.Operation, counts: tuple[int, ...], description: Description | None = None) -> int:
        bodies = [block.operations for region in op.regions for block in region.blocks]
        widest = max((widest_number(body) for body in bodies), default=0)
        info = OpInfo(op.name, self.lines[op], tuple(self.loops), counts, widest)
        if description is not None:
            indexed = description.indexed.indexed if description.indexed else None
            info = replace(info, wide_counts=description.wide_counts, indexed=indexed)
            plain = not description.products  # a product's dims are batch, m, n and k instead
            if plain and len(description.sources) <= MAX_RANK:  # with more dims, dims of one point are dropped
                info = replace(info, walks=description.walks)
        self.builder.ops.append(info)
        return len(self.builder.ops) - 1

    def _origins(self, op: ir.Operation) -> tuple[int, ...]:
        return origins_of(op) or (self.anchor,)

    def _emit_direct(
        self, touches: list[Touch], number: int, line: int, state: State, origins: tuple[int, ...], rounds: int = 1
    ) -> None:
        """Adds the instruction of an access loop. If the loop carries values, all its iterations count, even those that
        touch nothing."""
        operands = direct_operands(touches, self.kernel, line)
        carries = bool(self.builder.ops[number].carried)
        if operands or carries:
            self._flush(operands)
            points = max((operand.shape[0] for operand in operands), default=0)  # iterations that touch anything
            extent = (rounds if carries else points,)
            row = Instruction(Opcode.DIRECT, number, tuple(state.counters), operands, extent, origins=origins)
            self._add(row, state.core)

    def _emit(
        self, description: Description, number: int, state: State, boxes: list[Box], operands: tuple[Operand, ...]
    ) -> None:
        extent, reduction = description.extent([box.shape for box in boxes]), description.reduction
        if description.indexed is not None:
            extent = _innermost(extent, description.indexed.skipped)
        else:
            extent, reduction = _within_rank(extent, reduction)
        opcode, iteration = description.opcode(operands), tuple(state.counters)
        vector = opcode == Opcode.VECTOR
        if opcode in (Opcode.LOAD, Opcode.STORE):
            self.layouts.moved(*boxes)
        elif opcode in (Opcode.VECTOR, Opcode.MATMUL):
            self.layouts.used(number, description, boxes)
        if description.zeroes:
            self._flush(operands)
            fill = Instruction(opcode, number, iteration, operands, extent, origins=description.origins)
            self.zeroed.setdefault(_place(operands[0]), []).append(fill)
            return
        accumulates, origins = description.role == "contraction", description.origins
        if accumulates and (zeroed := self._zero_of(operands[-1])) is not None:
            self.zeroed[_place(operands[-1])].remove(zeroed)
            accumulates, origins = False, tuple(sorted({*origins, *zeroed.origins}))
            operands = (*operands[:-1], replace(operands[-1], access=Access.WRITE))
        self._flush(operands)
        instruction = Instruction(
            opcode=opcode,
            op=number,
            iteration=iteration,
            operands=operands,
            extent=extent,
            reduction=reduction if vector else 0,
            accumulates=accumulates,
            origins=origins,
        )
        if opcode != Opcode.MATMUL:
            self._add(instruction, state.core)
            return
        for part, size in shared(description, boxes, extent, self.machine):
            cut = tuple(box.operand(whole.access) for box, whole in zip(part, operands, strict=True))
            self._add(replace(instruction, operands=cut, extent=size), state.core)

    def _zero_of(self, accumulator: Operand) -> Instruction | None:
        """The pending zero fill of exactly this accumulator; None if there is none."""
        pending = self.zeroed.get(_place(accumulator), ())
        same = (each for each in pending if replace(each.operands[0], access=accumulator.access) == accumulator)
        return next(same, None)

    def _flush(self, operands: tuple[Operand, ...]) -> None:
        """Adds the pending zero fills that overlap these operands as vector instructions."""
        for operand in operands:
            if pending := self.zeroed.get(_place(operand)):
                box = box_of(operand)
                self._fill([each for each in pending if overlap(box_of(each.operands[0]), box)])

    def _flush_all(self) -> None:
        self._fill([each for pending in self.zeroed.values() for each in pending])

    def _fill(self, fills: list[Instruction]) -> None:
        for fill in fills:
            (operand,) = fill.operands
            self.zeroed[_place(operand)].remove(fill)
            self._add(fill, self.builder.buffers[operand.target].core)

    def _add(self, instruction: Instruction, core: int) -> None:
        self.together = frozenset[int]()
        last = self.builder.add(replace(instruction, core=core, dependences=self.tracker.add(instruction)))
        if last % 1000 == 999:
            so_far(f"{last + 1:,} of about {self.expected:,} instructions")


def _place(operand: Operand) -> tuple[int, int, int]:
    return operand.space, operand.target, operand.slot


def _within_rank(extent: tuple[int, ...], reduction: int) -> tuple[tuple[int, ...], int]:
    """The iteration space in at most `MAX_RANK` dims: with more, the dims of one point are dropped."""
    if len(extent) <= MAX_RANK:
        return extent, reduction
    kept = [dim for dim, size in enumerate(extent) if size != 1]
    mask = sum(1 << place for place, dim in enumerate(kept) if reduction >> dim & 1)
    return tuple(extent[dim] for dim in kept), mask


def _innermost(extent: tuple[int, ...], skipped: int) -> tuple[int, ...]:
    """The space of a gather or scatter without its `skipped` outer loops; raises if they have more than one point."""
    if any(size != 1 for size in extent[:skipped]):
        raise not_yet(f"Moving {extent} elements by index at once", f"Tile its first {skipped} dims to one each.")
    return extent[skipped:]


def _lines(text: str, context: ir.Context) -> list[int]:
    module = parse(text, context)  # this name keeps the module alive; its ops do not
    return [line_of(op.location) or 0 for op in operations(module.operation)]


def _is_written(argument: Value) -> bool:
    """True if some copy or store writes an argument."""
    for use in argument.uses:
        op = use.owner.operation
        if op.name in ("linalg.copy", "memref.store") and use.operand_number == 1:
            return True
        if op.name.startswith("memref.") and any(_is_written(result) for result in op.results):
            return True
    return False
