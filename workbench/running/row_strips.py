"""Runs consecutive ops on a tile strip by strip: a few rows go through all ops before the next rows.

A tile is as large as a scratchpad, and each op passes over the whole tile: on the host each pass reads from a far cache
the results of the pass before. If each row only depends on the same row of earlier results, as in a softmax, a norm or
a chain of arithmetic with its loads and stores, the order of rows and ops may be swapped. Every number is computed as
before. A buffer that only these ops use needs no more room than a strip.

The host can also leave out copies of a strip: it has only one memory, so an op may read and write a tensor directly. A
load into a buffer is left out if the tensor does not change while the buffer is read; a store is left out if the op
that fills the buffer does nothing else. Both memrefs must have the same order of elements: an op should not walk a
tensor across its rows. Arithmetic then goes on while the host waits for memory.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from torch_mlir import ir
from torch_mlir.dialects import memref

from workbench.ir.graph import row_major
from workbench.mlir.bindings import (
    DYNAMIC_EXTENT,
    DYNAMIC_STRIDE,
    Value,
    element_bytes,
    maker,
    segments,
    shape_of,
)
from workbench.mlir.context import operations
from workbench.mlir.index_arithmetic import scf_loop
from workbench.mlir.linalg_loops import axis_loops, indexing_maps, is_opened, iterators
from workbench.mlir.memrefs import recast, root_of, subview
from workbench.running.contraction_loops import knows_its_place

STRIP_BYTES: Final = 32_768
"""The bytes that the ops of a strip read and write together: the size of a first-level cache."""

_ADDRESSES: Final = (
    "memref.subview", "memref.reinterpret_cast", "memref.dim", "memref.alloc",
    "affine.apply", "affine.min", "affine.max",
)  # fmt: skip
"""Ops between others that neither read nor write memory, like all ops of arith."""


@dataclass
class _Run:
    """Consecutive ops, with the axis of rows in each operand."""

    rows: int
    ops: list[ir.Operation] = field(default_factory=list[ir.Operation])
    axes: list[list[int | None]] = field(default_factory=list[list[int | None]])
    """For each op and operand the axis of rows; None if the operand is the same for all rows."""

    def with_op(self, op: ir.Operation, loop: int) -> _Run | None:
        """Returns the run with one more op, whose rows `loop` walks; None if a row of the op needs more than the same
        row."""
        axes = [_axis_of(value, each, loop) for value, each in zip(op.operands, indexing_maps(op), strict=True)]
        longer = _Run(self.rows, [*self.ops, op], [*self.axes, axes])
        return longer if _kept_apart(longer) else None


def cut_into_strips(module: ir.Module) -> None:
    """Puts loops over strips around runs of generic ops; in place."""
    around = [op for op in operations(module.operation) if not op.name.startswith("linalg.")]
    for block in [block for op in around for region in op.regions for block in region.blocks]:
        for stretch in _stretches(block):
            while len(stretch) > 1:
                run = _longest(stretch)
                if run is not None and len(run.ops) > 1:
                    _write(run)
                stretch = stretch[len(run.ops) if run else 1 :]


def _stretches(block: ir.Block) -> list[list[ir.Operation]]:
    """Lists of generic ops between which nothing else reads or writes."""
    found: list[list[ir.Operation]] = [[]]
    for each in list(block.operations):
        op = each.operation
        if op.name == "linalg.generic" and _is_simple(op):
            found[-1].append(op)
        elif op.name not in _ADDRESSES and not op.name.startswith("arith."):
            found.append([])
    return found


def _is_simple(op: ir.Operation) -> bool:
    """True if an op computes its one result from operands of known sizes, in the same way at every position."""
    return (
        segments(op)[1] == 1
        and is_opened(op)
        and not knows_its_place(op)
        and all(DYNAMIC_EXTENT not in shape_of(value) for value in op.operands if _is_memref(value))
    )


def _longest(ops: Sequence[ir.Operation]) -> _Run | None:
    """The longest run that begins with the first op."""
    runs = [_grown(ops, loop) for loop in _row_loops(ops[0])]
    return max((run for run in runs if run), key=lambda run: len(run.ops), default=None)


def _grown(ops: Sequence[ir.Operation], loop: int) -> _Run | None:
    first = axis_loops(indexing_maps(ops[0])[-1]).index(loop)
    run = _Run(shape_of(ops[0].operands[-1])[first]).with_op(ops[0], loop)
    for op in ops[1:]:
        if run is None:
            return None
        loops = [each for each in _row_loops(op) if _extent(op, each) == run.rows]
        longer = next((made for each in loops if (made := run.with_op(op, each))), None)
        if longer is None:
            break
        run = longer
    return run


def _row_loops(op: ir.Operation) -> list[int]:
    """The parallel loops that walk the result, the one with the longest steps first."""
    result = op.operands[-1]
    strides, _ = ir.MemRefType(result.type).get_strides_and_offset()
    kinds = iterators(op)
    walked = [(loop, axis) for axis, loop in enumerate(axis_loops(indexing_maps(op)[-1])) if loop is not None]
    by_step = sorted(walked, key=lambda each: -strides[each[1]])
    return [loop for loop, axis in by_step if kinds[loop] == "parallel" and shape_of(result)[axis] > 1]


def _extent(op: ir.Operation, loop: int) -> int:
    return shape_of(op.operands[-1])[axis_loops(indexing_maps(op)[-1]).index(loop)]


def _axis_of(value: Value, indexing: ir.AffineMap, loop: int) -> int | None:
    loops = axis_loops(indexing)
    return loops.index(loop) if _is_memref(value) and loop in loops else None


def _kept_apart(run: _Run) -> bool:
    """True if rows follow one another in memory, and if all ops read and write the memory that one of them writes as
    the same view, row by row."""
    written = {root_of(op.operands[-1]) for op in run.ops}
    seen: dict[Value, tuple[Value, int | None]] = {}
    for op, axes in zip(run.ops, run.axes, strict=True):
        for value, axis in zip(op.operands, axes, strict=True):
            if axis is not None and not _is_outermost(value, axis):
                return False
            if not _is_memref(value) or root_of(value) not in written:
                continue
            if axis is None or seen.setdefault(root_of(value), (value, axis)) != (value, axis):
                return False
    return True


def _is_outermost(value: Value, axis: int) -> bool:
    strides, _ = ir.MemRefType(value.type).get_strides_and_offset()
    return all(strides[axis] >= each for each, extent in zip(strides, shape_of(value), strict=True) if extent > 1)


def _is_memref(value: Value) -> bool:
    return isinstance(value.type, ir.MemRefType)


def _write(run: _Run) -> None:
    walked = {value: axis for value, axis in _operands(run) if axis is not None}
    sizes = (math.prod(shape_of(value)) * element_bytes(ir.MemRefType(value.type)) for value in walked)
    row_bytes = sum(sizes) // run.rows
    most = max(STRIP_BYTES // max(row_bytes, 1), 1)
    if most >= run.rows:
        return
    strip = max(each for each in range(1, most + 1) if run.rows % each == 0)
    last = run.ops[-1]
    with last.context, last.location:
        with ir.InsertionPoint(last):
            place, end = scf_loop(run.rows, strip)
        small = {value: made for value, axis in walked.items() if (made := _smaller(value, axis, strip, run))}
        with ir.InsertionPoint(end):
            views = {value: _part(value, axis, place, strip) for value, axis in walked.items() if value not in small}
        for op, axes in zip(run.ops, run.axes, strict=True):
            for position, value in enumerate(list(op.operands)):
                if axes[position] is not None:  # an op may read the same tensor as a whole too
                    op.operands[position] = small.get(value) or views[value]
            op.move_before(end)
        spare_copies(run.ops, set(small.values()))


def _operands(run: _Run) -> list[tuple[Value, int | None]]:
    return [
        pair
        for op, axes in zip(run.ops, run.axes, strict=True)
        for pair in zip(op.operands, axes, strict=True)
        if _is_memref(pair[0])
    ]


def _part(value: Value, axis: int, place: Value, strip: int) -> Value:
    shape = shape_of(value)
    offsets = [place if each == axis else 0 for each in range(len(shape))]
    return subview(value, offsets, [strip if each == axis else extent for each, extent in enumerate(shape)])


def _smaller(value: Value, axis: int, strip: int, run: _Run) -> Value | None:
    """Makes a buffer of one strip in place of a buffer that only the ops of a run use; None if others use the
    buffer."""
    root, ops = root_of(value), set(run.ops)
    made = maker(root)
    strides, _ = ir.MemRefType(value.type).get_strides_and_offset()
    if made is None or DYNAMIC_STRIDE in strides or not _used_by(root, ops):
        return None
    shape = [strip if each == axis else extent for each, extent in enumerate(shape_of(value))]
    order = sorted(range(len(shape)), key=lambda each: -strides[each])
    laid = list(row_major(shape, order))
    kind = ir.MemRefType.get([math.prod(shape)], ir.MemRefType(value.type).element_type)
    with ir.InsertionPoint(made):
        buffer = memref.AllocOp(kind, [], [], alignment=64).result
        for use in root.uses:
            if use.owner.operation.name == "memref.dealloc":
                with ir.InsertionPoint(use.owner.operation):
                    memref.DeallocOp(buffer)
        return recast(buffer, shape, laid, 0)


def _used_by(value: Value, ops: set[ir.Operation]) -> bool:
    """True if only these ops read and write a buffer."""
    for use in value.uses:
        op = use.owner.operation
        if op.name in ("memref.subview", "memref.reinterpret_cast"):
            if not _used_by(op.results[0], ops):
                return False
        elif op.name != "memref.dealloc" and op not in ops:
            return False
    return True


def spare_copies(ops: Sequence[ir.Operation], buffers: Collection[Value]) -> None:
    """Removes copies to and from `buffers` from these ops of one block, which alone use the buffers; in place.

    All other memory that the ops read and write must have a view before the first op.
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
    """True if an op only copies each element to the same position, in memory of the same order."""
    if len(op.operands) != 2 or not all(isinstance(value.type, ir.MemRefType) for value in op.operands):
        return False
    block = op.regions[0].blocks[0]
    (yielded, *more) = list(block.operations)
    read, written = indexing_maps(op)
    return not more and yielded.operands[0] == block.arguments[0] and read == written and _same_order(*op.operands)


def _same_order(one: Value, other: Value) -> bool:
    """True if elements that follow one another in one memref also do so in the other."""
    return _closest(one) == _closest(other)


def _closest(value: Value) -> list[int]:
    """The axis along which elements follow one another, as a list; empty if they lie apart, or if there is one
    element."""
    strides, _ = ir.MemRefType(value.type).get_strides_and_offset()
    return [axis for axis, extent in enumerate(shape_of(value)) if extent > 1 and strides[axis] == 1]


def _is_spared_load(copy: ir.Operation, ops: Sequence[ir.Operation]) -> bool:
    """True if nothing else fills the buffer, and no op changes the tensor that it is filled from."""
    source, target = copy.operands
    others = [op for op in ops if op != copy]
    first = min((ops.index(op) for op in others if target in op.operands), default=len(ops))
    return (
        ops.index(copy) < first
        and not any(_written(op) == target for op in others)
        and root_of(source) not in {root_of(_written(op)) for op in ops}
    )


def _spared_store(copy: ir.Operation, ops: Sequence[ir.Operation]) -> ir.Operation | None:
    """The only other op that uses the buffer, if it writes every element once and reads no old element; else None."""
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
