# pyright: reportUnknownVariableType=false
"""Building memref ops whose types follow from their operands, and putting one memref in another's place."""

from __future__ import annotations

from collections.abc import Collection

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
    moved = ["?" if strides[axis] == DYNAMIC_STRIDE else str(strides[axis] * steps[axis]) for axis in kept]
    layout = f"strided<[{', '.join(moved)}], offset: {'?' if place is None else place}>"
    return memref.SubViewOp(
        memref_text(extents, kind.element_type, layout, space_of(source)),
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
    kind, shape = ir.MemRefType(source.type), shape_of(source)
    strides, offset = kind.get_strides_and_offset()
    place = offset + sum(start * stride for start, stride in zip(starts, strides, strict=True))
    laid = [step * stride for step, stride in zip(steps, strides, strict=True)]
    layout = f"strided<{laid}, offset: {place}>"
    wanted = memref_text(shape, kind.element_type, layout, space_of(source))
    return memref.SubViewOp(wanted, source, [], [], [], starts, shape, steps).result


def recast(source: Value, shape: list[int], strides: list[int], offset: int) -> Value:
    """Other extents, strides and first element over the same memory, all of them numbers."""
    kind = ir.MemRefType(source.type)
    result = memref_text(shape, kind.element_type, f"strided<{strides}, offset: {offset}>", space_of(source))
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
    layout = f"strided<{laid}, offset: {'?' if dynamic else offset}>"
    starts = [memref.ExtractStridedMetadataOp(source).offset] if dynamic else []
    result = memref_text(shape, kind.element_type, layout, space_of(source))
    return memref.ReinterpretCastOp(result, source, starts, [], [], [offset], shape, laid).result


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
