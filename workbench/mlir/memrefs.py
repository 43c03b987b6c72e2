# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Memrefs: new ops whose types follow from their operands, one memref in another's place, and the DRAM tensor, or the
argument, that a value of a kernel is read from or written to."""

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
    """A subview, every so many elements along each axis, without its `dropped` axes.

    Its type follows from the source's.
    """
    kind = ir.MemRefType(source.type)
    strides, start = kind.get_strides_and_offset()
    steps = steps or [1] * len(sizes)
    place: int | None = None if start == DYNAMIC_STRIDE else start
    for offset, stride in zip(offsets, strides, strict=True):
        if stride == 0:  # of an expanded tensor: wherever along it, the first element is the same
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
    """Slices a static memref's number of elements from other starts, in other steps, which may be negative."""
    shape, (strides, offset) = shape_of(source), ir.MemRefType(source.type).get_strides_and_offset()
    place = offset + sum(start * stride for start, stride in zip(starts, strides, strict=True))
    laid = [step * stride for step, stride in zip(steps, strides, strict=True)]
    wanted = _type_like(source, shape, laid, place)
    return memref.SubViewOp(wanted, source, [], [], [], starts, shape, steps).result


def recast(source: Value, shape: list[int], strides: list[int], offset: int) -> Value:
    """Other extents, strides and first element over the same memory, all of them numbers."""
    result = _type_like(source, shape, strides, offset)
    return memref.ReinterpretCastOp(result, source, [], [], [], [offset], shape, strides).result


def reshape(source: Value, shape: list[int]) -> Value:
    """`source` with unit extents added or dropped; an added one has the stride of what lies inside it."""
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
    """The type of a memref with the elements and the memory space of another one."""
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
    """Extents of a memref, with the largest that a dynamic one takes in any iteration."""
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
    """The (squeezed) memref a tensor is read from, when nothing but unit extents lies between."""
    while (op := maker(value)) is not None:
        if op.name == "bufferization.to_tensor":
            return op.operands[0]
        if op.name not in ("tensor.expand_shape", "tensor.collapse_shape"):
            return None
        value = op.operands[0]
    return None


def users_of(value: Value) -> list[ir.Operation]:
    """The ops that touch a memref's bytes, through whatever views."""
    found: list[ir.Operation] = []
    for use in value.uses:
        op = use.owner.operation
        if op.name.startswith("memref.") and len(op.results) and op.name != "memref.load":
            found += users_of(op.results[0])
        elif op.name != "memref.dealloc":
            found.append(op)
    return found


def replace(old: Value, new: Value) -> None:
    """Puts `new` in the place of `old`, rebuilding the views of it, whose types follow their source's."""
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
    """The type of the DRAM tensor that a value is read from or written to; None for what lies between two ops."""
    found = in_dram(value)
    return None if found is None else ir.MemRefType(found.type)


def in_dram(value: Value) -> Value | None:
    """The DRAM tensor that a value is read from or written to."""
    if isinstance(value.type, ir.MemRefType):
        return value
    if (op := maker(value, "bufferization.to_tensor")) is not None:
        return op.operands[0]
    op = maker(value)
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
    """The number of the argument whose memory, or a view of it, a value is in; -1 for what lies between two ops."""
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
