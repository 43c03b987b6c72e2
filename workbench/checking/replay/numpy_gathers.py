# pyright: reportAttributeAccessIssue=false, reportUnknownMemberType=false
"""A gather or a scatter executed by numpy: the result of its instruction, independent of the JIT."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch_mlir import ir

from simulator.units.gather import along
from workbench.checking.replay.numpy_elementwise import COMBINERS, ELEMENTS, Array, Element
from workbench.ground.errors import ReplayError
from workbench.mlir.bindings import maker
from workbench.mlir.context import line_of, operations, parse
from workbench.mlir.indexed_moves import accesses_in, read_indexed


def read_chosen(text: str, name: str) -> dict[int, ChosenOp]:
    """The gathers and scatters of a module by their 1-based line in its text."""
    module = parse(text, name=name)
    found = [op for op in operations(module.operation) if accesses_in(op)]
    return {line_of(op.location) or 0: ChosenOp(module, op) for op in found}


class ChosenOp:
    """A gather or scatter that can be executed on numpy arrays: the contents of its memrefs, its memory last."""

    def __init__(self, module: ir.Module, operation: ir.Operation) -> None:
        self._module = module  # keeps the op alive
        indexed = read_indexed(operation)
        assert indexed is not None, "an op with an access in its body"
        self._indexed = indexed
        self._operands = [value for value in operation.operands if isinstance(value.type, ir.MemRefType)]
        self._dims = [indexed.dims(number) for number in range(len(operation.operands))]

    @property
    def elements(self) -> tuple[Element, ...]:
        """The element type of each operand of the op's instruction."""
        kinds = [ir.MemRefType(value.type) for value in (*self._operands, self._indexed.memref)]
        return tuple(ELEMENTS[str(kind.element_type)] for kind in kinds)

    @property
    def written(self) -> int:
        """The number of the operand that the op writes: the tile that it fills, or the memory."""
        return len(self._operands) - (0 if self._indexed.writes else 1)

    def execute(self, tiles: Sequence[Array], extent: tuple[int, ...]) -> Array:
        """Returns the new contents of the operand that the op writes."""
        memory, meaning = tiles[-1], self._indexed.indexed
        places: list[Array] = []
        for code, count in zip(meaning.axes, memory.shape, strict=True):
            if code >= 0:
                places.append(along(np.arange(extent[code]), (code,), len(extent)))
                continue
            index = _spread(tiles[-1 - code], meaning.index_dims[-1 - code], extent)
            index = np.where(index < 0, index + count, index) if meaning.wraps else index
            if index.size and not 0 <= index.min() <= index.max() < count:
                raise ReplayError(f"an index between {index.min()} and {index.max()} of {count} places")
            places.append(index)
        where = tuple(np.broadcast_to(place, extent) for place in places)
        if self._indexed.writes:
            return self._scattered(memory.copy(), where, self._moved(tiles, extent))
        return memory[where].transpose(self._dims[-1]).reshape(tiles[self.written].shape)

    def _scattered(self, memory: Array, where: tuple[Array, ...], moved: Array) -> Array:
        """Stores one point after the other: if two points have the same place, the later one is stored last."""
        if not self._indexed.combiner:
            memory[where] = moved
            return memory
        combine = COMBINERS[self._indexed.combiner]
        for point in np.ndindex(*moved.shape):  # rounded each time, as a sum of 16-bit numbers is
            place = tuple(axis[point] for axis in where)
            memory[place] = self.elements[-1].rounded(combine(memory[place], moved[point]))
        return memory

    def _moved(self, tiles: Sequence[Array], extent: tuple[int, ...]) -> Array:
        moved = self._indexed.moved
        if isinstance(moved, ir.BlockArgument):
            return np.broadcast_to(_spread(tiles[moved.arg_number], self._dims[moved.arg_number], extent), extent)
        constant = maker(moved) if moved is not None else None
        assert constant is not None, "a scatter stores an operand or a constant"
        return np.broadcast_to(np.asarray(constant.attributes["value"].value, tiles[-1].dtype), extent)


def _spread(tile: Array, dims: tuple[int, ...], extent: tuple[int, ...]) -> Array:
    """A tile whose axes walk `dims`, with each axis at the place of its dim in the space of the instruction."""
    return along(tile.reshape([extent[dim] for dim in dims]), dims, len(extent))
