"""Typed accessors for untyped attributes of MLIR's ops and values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from torch_mlir import ir

from workbench.mlir.context import operations
from workbench.mlir.dialect import DRAM

Value: TypeAlias = "ir.Value[Any]"

Index: TypeAlias = "Value | int"
"""An index operand: an SSA value, or a number that is part of the op."""

DYNAMIC_EXTENT: int = ir.ShapedType.get_dynamic_size()
DYNAMIC_STRIDE: int = ir.ShapedType.get_dynamic_stride_or_offset()


def named(module: ir.Module, name: str) -> list[ir.Operation]:
    """Every op with this name, in the order of the text."""
    return [op for op in operations(module.operation) if op.name == name]


def function_of(module: ir.Module) -> ir.Operation:
    """The one function of a kernel's module."""
    (function,) = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
    return function


def maker(value: Value, *names: str) -> ir.Operation | None:
    """The op that makes a value; None for a block argument and, if names are given, for an op with another name."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    op = owner.operation
    return op if not names or op.name in names else None


def constant(value: Value) -> ir.Attribute | None:
    """The attribute of the `arith.constant` that makes a value; None for any other value."""
    op = maker(value, "arith.constant")
    return None if op is None else op.attributes["value"]


def makers_behind(
    values: Iterable[Value], inside: Callable[[ir.Operation], bool] = lambda op: True
) -> list[ir.Operation]:
    """All ops that values depend on, back to ops that are not `inside`."""
    found: dict[ir.Operation, None] = {}
    ahead = list(values)
    while ahead:
        op = maker(ahead.pop())
        if op is not None and op not in found and inside(op):
            found[op] = None
            ahead += list(op.operands)
    return list(found)


def replace_op(op: ir.Operation, *values: Value) -> None:
    """Replaces an op's results by values, and erases the op."""
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    op.erase()


def place_of_result(op: ir.Operation, value: Value) -> int:
    """The index of a value among the op's results."""
    results: list[Value] = list(op.results)
    return results.index(value)


def block_owning(value: Value) -> ir.Block:
    """The block whose argument a value is."""
    owner = value.owner
    assert isinstance(owner, ir.Block)
    return owner


def block_of(op: ir.Operation) -> ir.Block:
    """The block that contains an op."""
    block = op.block
    assert isinstance(block, ir.Block)
    return block


def owner_of(block: ir.Block) -> ir.Operation:
    """The op whose region a block is in."""
    return block.owner.operation


def ancestor_in(op: ir.Operation, block: ir.Block) -> ir.Operation:
    """The op of `block` that contains `op`, or `op` itself."""
    while block_of(op) != block:
        op = owner_of(block_of(op))
    return op


def segments(op: ir.Operation) -> list[int]:
    """Number of operands in each operand group (inputs and outputs of a linalg op, for one)."""
    return [int(count) for count in ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])]


def integer(op: ir.Operation, name: str) -> int:
    return ir.IntegerAttr(op.attributes[name]).value


def integers(op: ir.Operation, name: str) -> list[int]:
    return [int(each) for each in ir.DenseI64ArrayAttr(op.attributes[name])]


def space_of(value: Value) -> int:
    """Memory space of a memref value."""
    return space_of_type(ir.MemRefType(value.type))


def space_of_type(kind: ir.MemRefType) -> int:
    return DRAM if kind.memory_space is None else ir.IntegerAttr(kind.memory_space).value


def shape_of(value: Value) -> list[int]:
    """Extents of a shaped value; `DYNAMIC_EXTENT` for those that are not static."""
    return [int(extent) for extent in ir.ShapedType(value.type).shape]


def element_bytes(kind: ir.ShapedType) -> int:
    return number_bytes(kind.element_type)


def number_bytes(element: ir.Type) -> int:
    bits = 64 if isinstance(element, ir.IndexType) else int(getattr(element, "width"))  # noqa: B009 - on subclasses only
    return -(-bits // 8)


def subview_groups(op: ir.Operation) -> tuple[list[Index], list[Index], list[Index]]:
    """Offsets, sizes and strides of a `memref.subview`, each a number or an SSA value."""
    counts, operands = segments(op), list(op.operands)
    first, second = 1 + counts[1], 1 + counts[1] + counts[2]

    def mixed(name: str, dynamic: list[Value]) -> list[Index]:
        return [dynamic.pop(0) if each == DYNAMIC_STRIDE else each for each in integers(op, name)]

    return (
        mixed("static_offsets", operands[1:first]),
        mixed("static_sizes", operands[first:second]),
        mixed("static_strides", operands[second:]),
    )


def kept_axes(op: ir.Operation) -> list[int]:
    """Axes of a subview that its result keeps: unit extents may be dropped."""
    shape, sizes = shape_of(op.results[0]), integers(op, "static_sizes")
    kept: list[int] = []
    for axis, size in enumerate(sizes):
        left, wanted = len(sizes) - axis, len(shape) - len(kept)
        if wanted and (left == wanted or size != 1 or shape[len(kept)] == 1):
            kept.append(axis)
    assert len(kept) == len(shape), "a subview drops unit extents only"
    return kept


def copy(source: Value, target: Value) -> ir.Operation:
    """A `linalg.copy` at the insertion point: one movement."""
    from torch_mlir.dialects import linalg

    op: Any = linalg.CopyOp([], [source], [target])
    linalg.fill_builtin_region(op.operation)
    return op.operation


def integer_attribute(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def memref_text(
    shape: Sequence[int | str], element: str, strides: Sequence[int | str], offset: int | str = 0, space: int = DRAM
) -> str:
    """The type of a memref; a dynamic extent, stride or offset is `?`."""
    extents, steps = "x".join([*map(str, shape), element]), ", ".join(map(str, strides))
    start, where = f", offset: {offset}" if offset else "", f", {space}" if space != DRAM else ""
    return f"memref<{extents}, strided<[{steps}]{start}>{where}>"
