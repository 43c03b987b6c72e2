"""`aten::relu` by a template: the whole kernel written by hand, in aten_relu.mlir.j2.

    aten::relu(Tensor self) -> Tensor

The lines that say `fill in:` are yours; `pytest test_aten_relu.py` tells when they are right.
"""

from __future__ import annotations

import math

import workbench as wb
from simulator.machine import Machine
from workbench.ir import Mapping
from workbench.mlir.template import Template, Tile

OVERLOADS = ("aten.relu.default",)


class Relu(Template):
    """Tile by tile through the scratchpad: load, compute, store. Tensors have the result's shape: none is broadcast."""

    source = "aten_relu.mlir.j2"
    names = ("x", "out")

    def buffers(self) -> int:
        """Slots of a tile: with two, the next one arrives while this one is computed."""
        return 2

    def tile(self, machine: Machine) -> dict[str, int]:
        """An eighth of the tensor, so that transfers and arithmetic overlap; at least a vector, at most what fits."""
        tensors = [*self.inputs, *self.outputs]
        widest = 8  # bytes of an i64 or f64
        room = machine.scratchpad_bytes // (len(tensors) * self.buffers() * widest)
        goal = max(machine.vector_elements(widest), math.prod(self.dims().values()) // 8)
        return self.filled(min(room, goal))

    def tiles(self, mapping: Mapping) -> dict[str, Tile]:
        """A scratchpad tile for each tensor; the text calls them x_tile and so on."""
        shape = tuple(mapping.tile[dim] for dim in self.dims())
        tensors = (*self.inputs, *self.outputs)
        return {f"{each.name}_tile": Tile(shape, each.type.dtype, mapping.buffers) for each in tensors}


def register() -> None:
    """The lowering: from now on nodes of these overloads take this template."""
    wb.ops.template(*OVERLOADS, kind="tile")(Relu)
