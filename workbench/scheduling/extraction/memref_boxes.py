"""The box of a memref while a program is extracted: its place, its extents, its strides."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from simulator.tileprogram.program import MAX_RANK, Access, Operand, Space
from workbench.mlir.bindings import Value, element_bytes


@dataclass(frozen=True, slots=True)
class Box:
    """A memref's concrete place: where it starts, its extents and its strides, in elements."""

    space: Space
    target: int
    slot: int
    """The number of the slot; -n for a whole buffer of n slots, whose leading axis chooses the slot."""
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


NOWHERE = Box(Space.DRAM, 0, 0, 0, (), (), 1)


def argument_box(number: int, argument: Value) -> Box:
    """The box of a function argument."""
    kind = ir.MemRefType(argument.type)
    strides, offset = kind.get_strides_and_offset()
    return Box(Space.DRAM, number, 0, offset, tuple(kind.shape), tuple(strides), element_bytes(kind))
