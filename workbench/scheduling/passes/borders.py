"""Moves reshapes and padding at a kernel's border into the types of its arguments.

A reshape between an argument and the op that reads it, or between the last op and the result, becomes other extents
over the same memory. Padding becomes a view that reaches beyond an argument (`padded_views.py`); the padded elements
are filled in when tiles are loaded, without a padded copy in DRAM. Tiling sees neither.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import bufferization, tensor

from workbench.mlir.bindings import DYNAMIC_EXTENT, Value, constant, integers, maker, named, replace_op, shape_of
from workbench.mlir.memrefs import recast, subview
from workbench.scheduling.passes.kernel_pass import module_pass
from workbench.scheduling.passes.padded_views import padded_view

_AT_BORDERS = ("tensor.pad", "tensor.expand_shape", "tensor.collapse_shape")


def has_borders(module: ir.Module) -> bool:
    """True if `settle_borders` has any work."""
    return any(named(module, name) for name in _AT_BORDERS)


@module_pass("npu-borders")
def settle_borders(module: ir.Module) -> None:
    """Moves reshapes and padding of arguments and results into the types of the arguments."""
    with module.context, ir.Location.unknown():
        while any([_reshaped_before_padding(op) for op in named(module, "tensor.expand_shape")]):
            pass
        for op in named(module, "tensor.expand_shape"):
            _expanded_argument(op)
        for op in named(module, "tensor.extract_slice"):
            _cut_argument(op)
        for op in named(module, "tensor.expand_shape"):  # reshapes of the slices moved above
            _expanded_argument(op)
        for op in named(module, "tensor.pad"):
            _padded_argument(op)
        for op in named(module, "bufferization.materialize_in_destination"):
            _expanded_result(op)


def _groups(op: ir.Operation) -> list[list[int]]:
    """For each axis of a reshape's side with fewer axes, the axes of the other side."""
    return [
        [ir.IntegerAttr(axis).value for axis in ir.ArrayAttr(group)]
        for group in ir.ArrayAttr(op.attributes["reassociation"])
    ]


def _argument(value: Value) -> Value | None:
    """The memref that a tensor is read from unchanged; None if there is none."""
    op = maker(value, "bufferization.to_tensor")
    return None if op is None else op.operands[0]


def _expanded(memref: Value, shape: Sequence[int], groups: list[list[int]]) -> Value:
    """A view of the memref with each axis split into a group of axes."""
    strides, offset = ir.MemRefType(memref.type).get_strides_and_offset()
    laid = [0] * len(shape)
    for axis, group in enumerate(groups):
        step = strides[axis]
        for inner in reversed(group):
            laid[inner] = step
            step *= shape[inner]
    return recast(memref, list(shape), laid, offset)


def _reshaped_before_padding(op: ir.Operation) -> bool:
    """Moves a reshape before the padding that it reads, unless it splits a padded axis into several longer than one;
    True if moved."""
    pad, groups = maker(op.operands[0], "tensor.pad"), _groups(op)
    if pad is None or not padded_with(pad):
        return False
    low, high = integers(pad, "static_low"), integers(pad, "static_high")
    result = ir.RankedTensorType(op.results[0].type)
    wide_low, wide_high = [0] * result.rank, [0] * result.rank
    for axis, group in enumerate(groups):
        longest = max(group, key=lambda each: result.shape[each])
        if (low[axis] or high[axis]) and any(result.shape[each] > 1 for each in group if each != longest):
            return False
        wide_low[longest], wide_high[longest] = low[axis], high[axis]
    shape = [extent - a - b for extent, a, b in zip(result.shape, wide_low, wide_high, strict=True)]
    with ir.InsertionPoint(op), op.location:
        kind = ir.RankedTensorType.get(shape, result.element_type)
        source = tensor.ExpandShapeOp(kind, pad.operands[0], groups, [], shape).result
        wide = repadded(pad, source, wide_low, wide_high)
    replace_op(op, wide)
    if not list(pad.results[0].uses):
        pad.erase()
    return True


def repadded(pad: ir.Operation, source: Value, low: list[int], high: list[int]) -> Value:
    """Pads another tensor with the number of `pad`, at the insertion point."""
    kind = ir.RankedTensorType(source.type)
    shape = [extent + a + b for extent, a, b in zip(kind.shape, low, high, strict=True)]
    made = tensor.PadOp(ir.RankedTensorType.get(shape, kind.element_type), source, [], [], low, high)
    block = made.regions[0].blocks.append(*[ir.IndexType.get()] * kind.rank)
    with ir.InsertionPoint(block):
        tensor.YieldOp(_yielded(pad))
    return made.result


def _expanded_argument(op: ir.Operation) -> None:
    source = _argument(op.operands[0])
    if source is None or DYNAMIC_EXTENT in shape_of(op.results[0]):
        return
    with ir.InsertionPoint(op), op.location:
        _read_instead(op, _expanded(source, shape_of(op.results[0]), _groups(op)))


def _read_instead(op: ir.Operation, view: Value) -> None:
    """Replaces an op's result by the tensor of a view, at the insertion point."""
    replace_op(op, bufferization.to_tensor(op.results[0].type, view, restrict=True))


def _cut_argument(op: ir.Operation) -> None:
    """Replaces a slice of an argument by a view if only padding reads it, also through reshapes. Other slices stay."""
    source = _argument(op.operands[0])
    if source is None or not _is_padded(op.results[0]) or len(list(op.operands)) > 1:
        return
    groups = [integers(op, f"static_{name}") for name in ("offsets", "sizes", "strides")]
    left = list(shape_of(op.results[0]))
    dropped = [axis for axis, size in enumerate(groups[1]) if not (left and size == left[0] and [left.pop(0)])]
    with ir.InsertionPoint(op), op.location:
        _read_instead(op, subview(source, list(groups[0]), list(groups[1]), dropped, groups[2]))


def _expanded_result(op: ir.Operation) -> None:
    if (collapse := maker(op.operands[0], "tensor.collapse_shape")) is None:
        return
    wide = collapse.operands[0]
    with ir.InsertionPoint(op), op.location:
        target = _expanded(op.operands[1], shape_of(wide), _groups(collapse))
        bufferization.materialize_in_destination(None, wide, target, restrict=True, writable=True)
    op.erase()
    if not list(collapse.results[0].uses):
        collapse.erase()


def padded_with(op: ir.Operation) -> ir.Attribute | None:
    """The constant that a `tensor.pad` of known extents pads with; None if there is none."""
    known = DYNAMIC_EXTENT not in (*integers(op, "static_low"), *integers(op, "static_high"))
    return constant(_yielded(op)) if known else None


def _yielded(pad: ir.Operation) -> Value:
    block = pad.regions[0].blocks[0]
    return list(block.operations)[-1].operation.operands[0]


def _is_padded(value: Value) -> bool:
    """True if only padding ops read a tensor, directly or through reshapes."""
    readers = [use.owner.operation for use in value.uses]
    return bool(readers) and all(
        op.name == "tensor.pad" or (op.name == "tensor.expand_shape" and _is_padded(op.results[0])) for op in readers
    )


def _padded_argument(op: ir.Operation) -> None:
    source, number = _argument(op.operands[0]), padded_with(op)
    if source is None or number is None:
        return
    with ir.InsertionPoint(op), op.location:
        _read_instead(op, padded_view(source, integers(op, "static_low"), integers(op, "static_high"), number))
