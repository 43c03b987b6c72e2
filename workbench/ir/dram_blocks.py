"""Tensors in DRAM: the order of their axes, and the blocks that some machines pad them to.

A block has some columns along the axis on which elements lie side by side, and some rows along the next axis. Axes with
an extent of 1 do not count. A tensor with fewer than two other axes has no blocks, and lies row after row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from simulator.machine.tile_form import Tile
from simulator.records.spans import Grid
from simulator.units.tiled_tensors import storage_elements
from workbench.ir.graph import TensorType, row_major


@dataclass(frozen=True, slots=True)
class AxisOrder:
    """The order in which the axes of a storage's tensor lie in DRAM."""

    value: str
    """The value whose storage has the order; it is not a view."""
    axes: tuple[int, ...]
    """The axes, outermost first; along the last one elements lie side by side."""
    given: TensorType
    """The tensor's type in PyTorch; its type in kernels is in the graph's `types`."""
    why: str
    kept: bool = False
    """True if another order was wanted, but is impossible."""


AS_IN_PYTORCH = "as in PyTorch"
"""The reason for an order of axes that nobody wanted to change."""


def axes_of(kind: TensorType) -> tuple[int, ...]:
    """The axes of a tensor in the order in which they lie in memory, outermost first."""
    return tuple(sorted(range(len(kind.shape)), key=lambda axis: -kind.strides[axis]))


def padded_elements(shape: Sequence[int], axes: Sequence[int], block: Tile | None) -> int:
    """The elements of all blocks of a tensor whose axes lie in this order; without blocks the elements of the
    tensor."""
    extents = [shape[axis] for axis in axes if shape[axis] != 1]
    if block is None or len(extents) < 2:
        return math.prod(extents)
    *outer, rows, columns = extents
    return storage_elements(Grid(rows, columns), math.prod(outer), block)


def less_padded(kind: TensorType, block: Tile) -> tuple[tuple[int, ...], ...]:
    """The orders of the axes whose blocks have fewer elements than those of the given order, the fewest first.

    Only the two innermost axes are chosen: all others keep their order. Of orders with equally many elements the
    nearest to the given order comes first: an order with the given innermost axis is nearer than one without, then an
    order with the given next axis.
    """
    given = axes_of(kind)
    inner = [axis for axis in given if kind.shape[axis] != 1][::-1]

    def ordered(column: int, row: int) -> tuple[int, ...]:
        chosen = (inner[row], inner[column])
        return (*(axis for axis in given if axis not in chosen), *chosen)

    places = range(len(inner))
    ways = [
        (padded_elements(kind.shape, ordered(column, row), block), column, row != 1, row)
        for column in places
        for row in places
        if row != column
    ]
    today = padded_elements(kind.shape, given, block)
    return tuple(ordered(column, row) for size, column, _, row in sorted(ways) if size < today)


def dense_in(kind: TensorType, axes: Sequence[int]) -> TensorType:
    """The same tensor with its axes in this order, without gaps, from the start of its storage."""
    return TensorType(kind.shape, kind.dtype, row_major([max(extent, 1) for extent in kind.shape], list(axes)))
