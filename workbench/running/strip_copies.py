"""Copies of a strip that the host can spare: all its memory is one, so an op may read and write a tensor directly.

A load into a buffer is spared where the tensor stays as it is while the buffer is read; a store where the op that fills
the buffer does nothing but that. Only where both lie in the same order: an op should not walk a tensor across its rows.
Arithmetic then goes on while memory is waited for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from torch_mlir import ir

from workbench.mlir.bindings import Value, shape_of
from workbench.mlir.linalg_loops import indexing_maps, iterators
from workbench.mlir.memrefs import root_of


def spare_copies(ops: Sequence[ir.Operation], buffers: Collection[Value]) -> None:
    """Takes copies to and from `buffers`, which only these ops of one block use, out of them; in place.

    Whatever else the ops read and write has a view before the first of them.
    """
    left = list(ops)
    for copy in [op for op in ops if _is_copy(op)]:
        source, target = copy.operands
        if target in buffers and _is_spared_load(copy, left):
            _replace(target, source, left)
        elif source in buffers and (filling := _spared_store(copy, left)):
            filling.operands[len(filling.operands) - 1] = target
        else:
            continue
        left.remove(copy)
        copy.erase()


def _is_copy(op: ir.Operation) -> bool:
    """True if each element is written where it was read, in memory of the same order."""
    if len(op.operands) != 2 or not all(isinstance(value.type, ir.MemRefType) for value in op.operands):
        return False
    block = op.regions[0].blocks[0]
    (yielded, *more) = list(block.operations)
    read, written = indexing_maps(op)
    return not more and yielded.operands[0] == block.arguments[0] and read == written and _same_order(*op.operands)


def _same_order(one: Value, other: Value) -> bool:
    """True if the elements that follow one another in one memref do so in the other."""
    return _closest(one) == _closest(other)


def _closest(value: Value) -> list[int]:
    """The axis along which elements follow one another; none if they lie apart, or there is one element."""
    strides, _ = ir.MemRefType(value.type).get_strides_and_offset()
    return [axis for axis, extent in enumerate(shape_of(value)) if extent > 1 and strides[axis] == 1]


def _is_spared_load(copy: ir.Operation, ops: Sequence[ir.Operation]) -> bool:
    """True if nothing else fills the buffer, and nothing changes what it is filled with."""
    source, target = copy.operands
    others = [op for op in ops if op != copy]
    first = min((ops.index(op) for op in others if target in op.operands), default=len(ops))
    return (
        ops.index(copy) < first
        and not any(_written(op) == target for op in others)
        and root_of(source) not in {root_of(_written(op)) for op in ops}
    )


def _spared_store(copy: ir.Operation, ops: Sequence[ir.Operation]) -> ir.Operation | None:
    """The one other op that uses the buffer, if it writes every element once and looks at none of the old ones."""
    source, target = copy.operands
    users = [op for op in ops if op != copy and source in op.operands]
    if len(users) != 1 or any(root_of(target) in _roots(op) for op in ops if op != copy):
        return None
    (filling,) = users
    old = list(filling.regions[0].blocks[0].arguments)[-1]
    once = list(filling.operands).count(source) == 1 and _written(filling) == source
    whole = "reduction" not in iterators(filling) and not list(old.uses)
    return filling if once and whole and ops.index(filling) < ops.index(copy) else None


def _written(op: ir.Operation) -> Value:
    return op.operands[len(op.operands) - 1]


def _roots(op: ir.Operation) -> Iterator[Value]:
    return (root_of(value) for value in op.operands if isinstance(value.type, ir.MemRefType))


def _replace(old: Value, new: Value, ops: Sequence[ir.Operation]) -> None:
    for op in ops:
        for place, value in enumerate(list(op.operands)):
            if value == old:
                op.operands[place] = new
