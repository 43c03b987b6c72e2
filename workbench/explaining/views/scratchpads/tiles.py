"""Tiles: the boxes of tensors that each instruction of a kernel touches, and how often elements are moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np

from simulator.did_you_mean import did_you_mean, sentences
from simulator.tileprogram.program import Access, Opcode, Operand, Space, TileProgram
from simulator.tileprogram.slot_fillings import fillings
from simulator.tileprogram.tensor_boxes import Coordinates, TensorBox
from simulator.tileprogram.tensor_moves import moves
from simulator.units.gather import INDEXED
from workbench.explaining.views.graphs.titles import user_names
from workbench.explaining.views.scratchpads.scratchpad import moved_with, operands_in
from workbench.ground.basics.table import Cell, Table
from workbench.ground.errors import BadOption
from workbench.ir import KernelGraph, Launch, ScheduledProgram

BY_INDEX: Final = "indices choose the moved elements: the tile covers all that they could choose"
PADDING: Final = "padding"
"""The access of the padding around a tile."""


@dataclass(frozen=True, slots=True)
class Touch:
    """One box that an instruction reads or writes."""

    instruction: int
    kind: str
    core: int
    tensor: str
    box: TensorBox | None
    """None for a tile that stays in the scratchpad."""
    extent: tuple[int, ...]
    access: str
    buffer: str
    slot: int
    argument: int
    """The kernel's argument that is moved, or -1 where nothing is moved from or to DRAM."""
    by_index: bool


@dataclass(frozen=True, slots=True)
class TensorMoves:
    """The moves of one tensor's elements."""

    tensor: str
    access: str
    shape: tuple[int, ...]
    moved: int
    least: int | None
    """The number of different elements; None if it depends on data."""
    most: int | None
    padding: int
    """Elements of padding around its tiles in the scratchpad."""
    argument: int
    coordinates: tuple[int, ...]
    """Extents of the axes along which boxes are given: the tensor's, or its storage's if elements share memory."""

    @property
    def average(self) -> float | None:
        return self.moved / self.least if self.least else None


@dataclass(frozen=True)
class Tiling:
    """The tiles of one kernel."""

    kernel: str
    touches: tuple[Touch, ...]
    tensors: tuple[TensorMoves, ...]


def tiling(kernel: str, scheduled: ScheduledProgram, lowered: KernelGraph) -> Tiling:
    """The tiles of a kernel of the graph, by its name."""
    launch = _launch_of(kernel, scheduled)
    names = user_names(lowered)
    arguments = [names.get(value, value) for value in launch.arguments]
    reader = _Reader(scheduled.kernel(launch.kernel).program, arguments, launch.origins)
    return Tiling(kernel, tuple(reader.touches()), tuple(reader.tensors()))


def _launch_of(kernel: str, scheduled: ScheduledProgram) -> Launch:
    hosts = {step.kernel for step in scheduled.hosts}
    launches = {launch.name: launch for launch in scheduled.launches.launches if launch.kernel not in hosts}
    if kernel in launches:
        return launches[kernel]
    if kernel in hosts:
        raise BadOption(f"tiles({kernel!r}): PyTorch computes it on the host, so it has no tiles")
    what = f"tiles({kernel!r}): no kernel has that name{did_you_mean(kernel, launches)}"
    raise BadOption(sentences(what, f"The kernels are {', '.join(launches) or 'none'}"))


class _Reader:
    """Reads the boxes of tensors off a program."""

    def __init__(self, program: TileProgram, arguments: Sequence[str], origins: Sequence[str]) -> None:
        self.program, self.arguments, self.origins = program, arguments, origins
        self.coordinates = [Coordinates(argument) for argument in program.arguments]
        self.filled, self.owner = fillings(program), program.owners()
        self.parts: dict[int, list[_Part]] = {}
        """The boxes of DRAM that each filling was loaded from, and that it is stored to."""
        self.loaded: dict[int, int] = {}
        """The argument that each loaded filling comes from."""
        self.outside = np.flatnonzero(program.space == Space.DRAM).tolist()
        for operand in self.outside:
            for inside in moved_with(program, int(self.owner[operand])):
                is_copy = program.opcode[self.owner[operand]] in (Opcode.LOAD, Opcode.STORE)
                part = _Part(program.operand(operand), program.operand(inside), is_copy)
                filling = int(self.filled.of_operand[inside])
                self.parts.setdefault(filling, []).append(part)
                if part.outside.access & Access.READ and part.inside.access & Access.WRITE:
                    self.loaded.setdefault(filling, part.outside.target)

    def touches(self) -> list[Touch]:
        """The boxes, instruction by instruction; a moved tile has one entry with both its tensor and its slot."""
        return [touch for row in range(len(self.program)) for touch in self._of_row(row)]

    def _of_row(self, row: int) -> list[Touch]:
        program = self.program
        first, last = int(program.operand_start[row]), int(program.operand_start[row + 1])
        outside = operands_in(program, Space.DRAM, first, last)
        inside = operands_in(program, Space.SCRATCHPAD, first, last)
        partners = moved_with(program, row)
        place = partners[0] if len(partners) == 1 else -1
        found = [self._moved(row, each, place) for each in outside]
        return found + [self._used(row, each) for each in inside if not outside or each != place]

    def _moved(self, row: int, operand: int, place: int) -> Touch:
        moved, opcode = self.program.operand(operand), Opcode(self.program.opcode[row])
        box, inside = self.coordinates[moved.target].box(moved), self.program.operand(place) if place >= 0 else None
        return Touch(
            row, opcode.name, int(self.program.core[row]), self.arguments[moved.target], box, box.extent,
            ACCESS[moved.access], self.program.buffers[inside.target].name if inside else "",
            inside.slot if inside else -1, moved.target, opcode in INDEXED and operand == self._memory(row),
        )  # fmt: skip

    def _memory(self, row: int) -> int:
        """The operand of a gather or scatter whose places are data."""
        return int(self.program.operand_start[row + 1]) - 1

    def _used(self, row: int, operand: int) -> Touch:
        used, kind = self.program.operand(operand), Opcode(self.program.opcode[row]).name
        filling = int(self.filled.of_operand[operand])
        name, box = self._meant(used, filling)
        name = name or self._made_by(row)
        access = ACCESS[used.access]
        if filling in self.loaded and not self._reads(row):
            box, access = None, PADDING
        extent, buffer = box.extent if box else used.shape, self.program.buffers[used.target].name
        return Touch(row, kind, int(self.program.core[row]), name, box, extent, access, buffer, used.slot, -1, False)

    def _reads(self, row: int) -> bool:
        own = slice(int(self.program.operand_start[row]), int(self.program.operand_start[row + 1]))
        return bool((self.program.access[own] & Access.READ).any())

    def _made_by(self, row: int) -> str:
        origins = self.program.origin[self.program.origin_start[row] : self.program.origin_start[row + 1]]
        return self.origins[int(origins.max())] if len(origins) else ""

    def _meant(self, used: Operand, filling: int) -> tuple[str, TensorBox | None]:
        """The tensor whose tile lies in a slot, and the box of the tensor that an operand uses; if no box fits, the box
        around all that lies in the slot."""
        parts = self.parts.get(filling, [])
        for part in parts:
            seen = part.seen_from(used)
            if seen is not None:
                return self.arguments[seen.target], self.coordinates[seen.target].box(seen)
        if not parts:
            return "", None
        argument = parts[0].outside.target
        boxes = [self.coordinates[argument].box(part.outside) for part in parts if part.outside.target == argument]
        return self.arguments[argument], around(boxes)

    def tensors(self) -> list[TensorMoves]:
        """One entry an argument that is moved."""
        program, every = self.program, dict[int, list[int]]()
        for operand in self.outside:
            every.setdefault(int(program.target[operand]), []).append(operand)
        return [self._tensor(argument, operands) for argument, operands in sorted(every.items())]

    def _tensor(self, argument: int, operands: list[int]) -> TensorMoves:
        program = self.program
        access = int(np.bitwise_or.reduce(program.access[operands]))
        indexed = [each for each in operands if program.opcode[self.owner[each]] in INDEXED]
        if any(each == self._memory(int(self.owner[each])) for each in indexed):
            counts = [prod(self._points(each)) for each in operands]
            counted = (sum(counts), None, None)
        else:
            found = moves(self.coordinates[argument], (program.operand(each) for each in operands))
            counted = (found.moved, found.touched, found.most)
        shape = program.arguments[argument].shape
        return TensorMoves(
            self.arguments[argument], ACCESS[Access(access)], shape, *counted, self._padding(argument), argument,
            self.coordinates[argument].shape,
        )  # fmt: skip

    def _points(self, operand: int) -> tuple[int, ...]:
        """The extents of the moved elements: for the memory of a gather or scatter, one element for each point of its
        space."""
        row = int(self.owner[operand])
        if self.program.opcode[row] in INDEXED and operand == self._memory(row):
            return self.program.instruction(row).extent
        return self.program.operand(operand).shape

    def _padding(self, argument: int) -> int:
        """Elements of padding around the loaded tiles of an argument, by instructions that read nothing."""
        inside = np.flatnonzero(self.filled.of_operand >= 0).tolist()
        loaded = (each for each in inside if self.loaded.get(int(self.filled.of_operand[each])) == argument)
        padding = (each for each in loaded if not self._reads(int(self.owner[each])))
        return sum(int(self.program.shape[each].prod()) for each in padding)


ACCESS = {Access.READ: "read", Access.WRITE: "write", Access.READ_WRITE: "read, write"}


@dataclass(frozen=True, slots=True)
class _Part:
    """An instruction's move between DRAM and a slot."""

    outside: Operand
    inside: Operand
    is_copy: bool
    """True if elements are copied in order; otherwise data, or a loop of single accesses, decides their places."""

    def seen_from(self, used: Operand) -> Operand | None:
        """The tensor's box for an operand in the slot; None if it reaches beyond the moved tile."""
        inside, outside = self.inside, self.outside
        if not self.is_copy:
            return None
        walked = [axis for axis, extent in enumerate(inside.shape) if extent > 1]
        walked.sort(key=lambda axis: -inside.strides[axis])
        left, place = used.offset - inside.offset, outside.offset
        low, high = dict[int, int](), dict[int, int]()
        for axis in walked:
            low[axis], left = divmod(left, inside.strides[axis])
            high[axis] = low[axis]
            place += low[axis] * outside.strides[axis]
        strides = list[int]()
        for extent, stride in zip(used.shape, used.strides, strict=True):
            if extent == 1 or stride == 0:
                strides.append(0)
                continue
            axis = next((each for each in walked if 0 < inside.strides[each] <= abs(stride)), None)
            if axis is None or stride % inside.strides[axis]:
                return None
            step = stride // inside.strides[axis]
            low[axis] += min(0, (extent - 1) * step)
            high[axis] += max(0, (extent - 1) * step)
            strides.append(step * outside.strides[axis])
        if left or any(low[axis] < 0 or high[axis] >= inside.shape[axis] for axis in walked):
            return None
        return replace(outside, slot=0, offset=place, shape=used.shape, strides=tuple(strides), access=used.access)


def around(boxes: Sequence[TensorBox]) -> TensorBox:
    """The smallest box around several boxes."""
    starts, ends = zip(*((box.start, box.end) for box in boxes), strict=True)
    start = tuple(min(each) for each in zip(*starts, strict=True))
    end = tuple(max(each) for each in zip(*ends, strict=True))
    extent = tuple(b - a for a, b in zip(start, end, strict=True))
    return TensorBox(start, extent, (1,) * len(start), exact=False)


def tiles_table(view: Tiling) -> Table:
    """One row a box, in the order of the instructions."""

    def row(touch: Touch) -> tuple[Cell, ...]:
        box, slot = touch.box, touch.slot if touch.slot >= 0 else None
        place = (box.start, box.extent, box.step) if box else (None, touch.extent, None)
        exact = bool(box is None or box.exact) and not touch.by_index
        return touch.instruction, touch.kind, touch.core, touch.tensor, touch.access, *place, touch.buffer, slot, exact

    columns = ("instruction", "kind", "core", "tensor", "access", "start", "extent", "step", "buffer", "slot", "exact")
    return Table(columns, tuple(map(row, view.touches)), "the kernel has no instructions")


def moved_table(view: Tiling) -> Table:
    """One row a tensor that is moved between DRAM and the scratchpad."""
    columns = ("tensor", "access", "shape", "moved", "least", "average", "most", "padding")
    rows = tuple(tuple(getattr(each, column) for column in columns) for each in view.tensors)
    return Table(columns, rows, "the kernel moves nothing")


def moved_text(each: TensorMoves) -> str:
    """Says in a sentence how many elements of a tensor are moved, and how many times each."""
    padding = f"; {each.padding:,} more are padding" if each.padding else ""
    if each.least is None:
        return f"{each.moved:,} elements are moved: {BY_INDEX}{padding}"
    if each.most is not None and each.most <= 1:
        return f"{each.moved:,} elements, each moved once{padding}"
    return (
        f"{each.moved:,} elements are moved, the least is {each.least:,}: each {each.average:.3g} times, "
        f"at most {each.most:,}{padding}"
    )


def tiles_text(view: Tiling) -> str:
    """The moves of each tensor, then every box."""
    lines = [f"{each.tensor}: {moved_text(each)}" for each in view.tensors]
    return "\n".join([f"kernel {view.kernel}", *lines, tiles_table(view).text()])
