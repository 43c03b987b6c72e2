"""`aten._foobar`, an op that copies its input: the smallest kernel with every part of a kernel.

This file has three templates of the op, from the simplest text to a good one. None is registered by default; begin by
registering one:

    with wb.ops.scope():
        wb.ops.template("aten._foobar.default")(FoobarTiled)
        j = wb.trace(lambda x: torch.ops.aten._foobar(x), torch.randn(512, 768))
"""

from __future__ import annotations

import math

import torch

from simulator.machine.machine import Machine
from workbench.ground.torch_inside.operator_objects import has_kernel
from workbench.ir import Mapping
from workbench.scheduling.kernels.template import Template, Tile

STEPS = 8
"""The number of tiles to aim at, so that moving and copying can overlap."""

ELEMENT_BYTES = 4
"""The bytes of an element for which tiles are sized."""


class FoobarDirect(Template):
    """Element by element, directly from DRAM to DRAM: simple, but nothing hides the latency."""

    source = "foobar_direct.mlir.j2"


class FoobarTiled(Template):
    """Tile by tile through the scratchpad: load, copy with the vector unit, store."""

    source = "foobar_tiled.mlir.j2"

    def tile(self, machine: Machine) -> dict[str, int]:
        """A tile of an eighth of the tensor, at least one vector and at most an eighth of the scratchpad.

        It is as long as possible in the innermost dims.
        """
        room = machine.scratchpad_bytes // 8 // ELEMENT_BYTES
        least = machine.vector_elements(ELEMENT_BYTES)
        return self.filled(min(room, max(least, math.prod(self.dims().values()) // STEPS)))

    def tiles(self, mapping: Mapping) -> dict[str, Tile]:
        shape = tuple(mapping.tile[dim] for dim in self.dims())
        dtype = self.outputs[0].type.dtype
        return {name: Tile(shape, dtype, mapping.buffers) for name in ("X_tile", "Y_tile")}


class FoobarDoubleBuffered(FoobarTiled):
    """The same text with two slots a buffer: the next tile arrives while this one is copied."""

    def buffers(self) -> int:
        return 2


def register_fake() -> None:
    """Teaches PyTorch the shape of `_foobar`'s result, which it otherwise knows only from data."""
    if not has_kernel("aten::_foobar", "Meta"):
        torch.library.impl("aten::_foobar", "Meta", func=_fake)


def _fake(x: torch.Tensor, arg1: bool = True, arg2: bool = True, *, arg3: bool = True) -> torch.Tensor:
    return torch.empty_like(x)
