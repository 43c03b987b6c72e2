# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Memrefs: makes views whose types follow from their operands, replaces a memref by another, and finds the DRAM tensor
or argument that a value of a kernel is read from or written to."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch_mlir import ir
from torch_mlir.dialects import memref

from workbench.mlir.affine import range_of
from workbench.mlir.bindings import (
    DYNAMIC_EXTENT,
    DYNAMIC_STRIDE,
    Index,
    Value,
    maker,
    memref_text,
    place_of_result,
    segments,
    shape_of,
    space_of,
    subview_groups,
)


def subview(
    source: Value,
    offsets: list[Index],
    sizes: list[Index],
    dropped: Collection[int] = (),
    steps: list[int] | None = None,
) -> Value:
    """Makes a subview without its `dropped` axes, with strides `steps` (1 by default).

    The type follows from the source's.
    """
    kind = ir.MemRefType(source.type)
    strides, start = kind.get_strides_and_offset()
    steps = steps or [1] * len(sizes)
    place: int | None = None if start == DYNAMIC_STRIDE else start
    for offset, stride in zip(offsets, strides, strict=True):
        if stride == 0:  # an expanded tensor: the offset along this axis does not change the first element
            continue
        static = place is not None and isinstance(offset, int) and stride != DYNAMIC_STRIDE
        place = place + offset * stride if static else None  # pyright: ignore[reportOptionalOperand, reportOperatorIssue]
    kept = [axis for axis in range(len(sizes)) if axis not in dropped]
    extents = [size if isinstance(size := sizes[axis], int) else "?" for axis in kept]
    moved = ["?" if strides[axis] == DYNAMIC_STRIDE else strides[axis] * steps[axis] for axis in kept]
    return memref.SubViewOp(
        _type_like(source, extents, moved, "?" if place is None else place),
        source,
        [each for each in offsets if not isinstance(each, int)],
        [each for each in sizes if not isinstance(each, int)],
        [],
        [each if isinstance(each, int) else DYNAMIC_STRIDE for each in offsets],
        [each if isinstance(each, int) else DYNAMIC_STRIDE for each in sizes],
        steps,
    ).result


def sliced(source: Value, starts: list[int], steps: list[int]) -> Value:
    """A view of a static memref with equal extents, from other starts and with other steps, which may be negative."""
    shape, (strides, offset) = shape_of(source), ir.MemRefType(source.type).get_strides_and_offset()
    place = offset + sum(start * stride for start, stride in zip(starts, strides, strict=True))
    laid = [step * stride for step, stride in zip(steps, strides, strict=True)]
    wanted = _type_like(source, shape, laid, place)
    return memref.SubViewOp(wanted, source, [], [], [], starts, shape, steps).result


def recast(source: Value, shape: list[int], strides: list[int], offset: int) -> Value:
    """A view of the same memory with other static extents, strides and offset."""
    result = _type_like(source, shape, strides, offset)
    return memref.ReinterpretCastOp(result, source, [], [], [], [offset], shape, strides).result


def reshape(source: Value, shape: list[int]) -> Value:
    """A view of `source` with unit extents added or dropped; an added axis gets the stride of a dense layout."""
    kind = ir.MemRefType(source.type)
    strides, offset = kind.get_strides_and_offset()
    kept = [stride for extent, stride in zip(kind.shape, strides, strict=True) if extent != 1]
    assert [each for each in shape if each != 1] == [each for each in kind.shape if each != 1], "unit extents only"
    laid: list[int] = []
    inner = 1
    for extent in reversed(shape):
        stride = kept.pop() if extent != 1 else inner
        laid.insert(0, stride)
        inner = extent * stride
    dynamic = offset == DYNAMIC_STRIDE
    starts = [memref.ExtractStridedMetadataOp(source).offset] if dynamic else []
    result = _type_like(source, shape, laid, "?" if dynamic else offset)
    return memref.ReinterpretCastOp(result, source, starts, [], [], [offset], shape, laid).result


def _type_like(source: Value, shape: Sequence[int | str], strides: Sequence[int | str], offset: int | str) -> ir.Type:
    """The memref type of this shape and layout, with the element type and memory space of `source`."""
    element = str(ir.MemRefType(source.type).element_type)
    return ir.Type.parse(memref_text(shape, element, strides, offset, space_of(source)))


def dynamic_sizes(value: Value) -> list[Value | None]:
    """The SSA value behind each dynamic extent of a memref; None for static ones."""
    shape, op = shape_of(value), maker(value)
    if DYNAMIC_EXTENT not in shape:
        return [None] * len(shape)
    assert op is not None and op.name in ("memref.alloc", "memref.subview"), "who else makes dynamic extents"
    dynamic = list(op.operands)
    if op.name == "memref.subview":  # an axis is dropped only when its extent is static
        dynamic = [size for size in subview_groups(op)[1] if not isinstance(size, int)]
    return [dynamic.pop(0) if extent == DYNAMIC_EXTENT else None for extent in shape]


def full_shape(value: Value) -> list[int]:
    """The extents of a memref; for a dynamic one, its largest value in any iteration."""
    pairs = zip(shape_of(value), dynamic_sizes(value), strict=True)
    return [extent if size is None else range_of(size).high for extent, size in pairs]


def mixed_shape(value: Value) -> list[Index]:
    """Extents of a memref: numbers, and the SSA values of the dynamic ones."""
    pairs = zip(shape_of(value), dynamic_sizes(value), strict=True)
    return [extent if size is None else size for extent, size in pairs]


def root_of(value: Value) -> Value:
    """The buffer, argument or constant that a memref is a view of."""
    while (op := maker(value)) is not None and op.name != "memref.alloc" and len(op.operands):
        value = op.operands[0]
    return value


def memref_behind(value: Value) -> Value | None:
    """The memref that a tensor is read from, at most through reshapes; None if there is none."""
    while (op := maker(value)) is not None:
        if op.name == "bufferization.to_tensor":
            return op.operands[0]
        if op.name not in ("tensor.expand_shape", "tensor.collapse_shape"):
            return None
        value = op.operands[0]
    return None


def uses_of(value: Value) -> list[tuple[ir.Operation, int]]:
    """The ops that access a memref's bytes, directly or through views, each with the number of the operand."""
    found: list[tuple[ir.Operation, int]] = []
    for use in value.uses:
        op = use.owner.operation
        if op.name.startswith("memref.") and len(op.results) and op.name != "memref.load":
            found += uses_of(op.results[0])
        elif op.name != "memref.dealloc":
            found.append((op, use.operand_number))
    return found


def replace(old: Value, new: Value) -> None:
    """Replaces `old` by `new`, and makes the views of `old` again, since their types follow their source's."""
    for use in list(old.uses):
        op = use.owner.operation
        if op.name in ("memref.collapse_shape", "memref.expand_shape"):
            with ir.InsertionPoint(op), op.location:
                replace(op.results[0], reshape(new, shape_of(op.results[0])))
            op.erase()
        elif op.name == "memref.subview":
            offsets, sizes, _ = subview_groups(op)
            if offsets == [0] * len(offsets) and sizes == mixed_shape(old):
                replace(op.results[0], new)
            else:
                with ir.InsertionPoint(op), op.location:
                    replace(op.results[0], subview(new, offsets, sizes))
            op.erase()
        else:
            op.operands[use.operand_number] = new


def memref_in_dram(value: Value) -> ir.MemRefType | None:
    """The type of the DRAM tensor that a value is read from or written to; None for a value between two ops."""
    found = in_dram(value)
    return None if found is None else ir.MemRefType(found.type)


def in_dram(value: Value) -> Value | None:
    """The DRAM tensor that a value is read from or written to; None for a value between two ops."""
    if isinstance(value.type, ir.MemRefType):
        return value
    op = maker(value)
    if op is not None and op.name == "bufferization.to_tensor":
        return op.operands[0]
    if op is not None and op.name.startswith("linalg.") and len(op.results):
        start = op.operands[segments(op)[0] + place_of_result(op, value)]
        if (place := in_dram(start)) is not None:
            return place
    for use in value.uses:
        user = use.owner.operation
        if user.name == "bufferization.materialize_in_destination":
            return user.operands[1] if isinstance(user.operands[1].type, ir.MemRefType) else None
    return None


def argument_of(value: Value) -> int:
    """The number of the argument that a value is read from or written to; -1 for a value between two ops."""
    there = in_dram(value)
    return -1 if there is None else argument_behind(there)


def argument_behind(memref: Value) -> int:
    """The number of the argument that a memref is a view of; -1 for other memory."""
    there = memref
    while (op := maker(there)) is not None:
        if not (op.name.startswith("memref.") and len(op.operands)):
            return -1
        there = op.operands[0]
    return ir.BlockArgument(there).arg_number
