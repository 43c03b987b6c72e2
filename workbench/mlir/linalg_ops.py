"""Finds the linalg ops of a module, makes generic ones, and copies ops so that each reader has its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from torch_mlir import ir

from workbench.mlir.bindings import Value, integer, integer_attribute, segments, shape_of
from workbench.mlir.context import operations
from workbench.mlir.linalg_loops import indexing_maps, iterators


def linalg_ops(module: ir.Module) -> list[ir.Operation]:
    """Every linalg op in the order of the text."""
    inside = ("linalg.yield", "linalg.index")
    return [op for op in operations(module.operation) if op.name.startswith("linalg.") and op.name not in inside]


def generic(
    inputs: Sequence[Value], outs: Sequence[Value], maps: Iterable[ir.AffineMap], kinds: Iterable[str]
) -> ir.Operation:
    """Makes a `linalg.generic` without a body at the insertion point. On tensors it has a result for each of `outs`."""
    return ir.Operation.create(
        "linalg.generic",
        results=[out.type for out in outs if isinstance(out.type, ir.RankedTensorType)],
        operands=[*inputs, *outs],
        attributes={
            "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps]),
            "iterator_types": ir.ArrayAttr.get(
                [ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]
            ),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(inputs), len(outs)]),
        },
        regions=1,
    )


def generic_with_body(
    inputs: Sequence[Value], outs: Sequence[Value], maps: Iterable[ir.AffineMap], kinds: Iterable[str]
) -> tuple[ir.Operation, ir.Block]:
    """Makes a `linalg.generic` with an empty body, whose arguments are an element of each operand; returns both."""
    made = generic(inputs, outs, maps, kinds)
    types = [each.type for each in (*inputs, *outs)]
    elements = [kind.element_type if isinstance(kind, ir.ShapedType) else kind for kind in types]
    return made, made.regions[0].blocks.append(*elements)


def end_body(body: ir.Block, values: Sequence[Value]) -> None:
    """Ends the body of a linalg op, at the current location: it yields `values`, the elements of the results."""
    with ir.InsertionPoint(body):
        ir.Operation.create("linalg.yield", operands=values)


def clone_into(
    body: ir.Block, ops: Iterable[ir.Operation], known: dict[Value, Value], loops: Sequence[int] | None = None
) -> None:
    """Copies `ops` to the end of a block; `known` maps values of the old block to values of the new one.

    `linalg.index` ops are renumbered if the new op has only some `loops` of the old one.
    """
    for each in ops:
        with ir.InsertionPoint(body):
            copy = each.clone()
        for position, value in enumerate(each.operands):
            if value in known:
                copy.operands[position] = known[value]
        if copy.name == "linalg.index" and loops is not None:
            copy.attributes["dim"] = integer_attribute(loops.index(integer(each, "dim")))
        known |= dict(zip(each.results, copy.results, strict=True))


Read: TypeAlias = "tuple[Value, ir.AffineMap, Value | None]"
"""An input of an op: the operand, its map, and the body's value for an element of the operand, None if unused."""


def reads_of(op: ir.Operation, places: Iterable[int]) -> list[Read]:
    """The inputs of a `linalg.generic` with these operand numbers."""
    maps, arguments = indexing_maps(op), op.regions[0].blocks[0].arguments
    return [(op.operands[place], maps[place], arguments[place]) for place in places]


def with_reads(op: ir.Operation, reads: Sequence[Read], ops: Sequence[ir.Operation] = ()) -> ir.Operation:
    """Makes a `linalg.generic` like `op` with other inputs, at the insertion point. The body has only `ops` of the old
    one if given, else all."""
    inputs, block = segments(op)[0], op.regions[0].blocks[0]
    maps = [*(walk for _, walk, _ in reads), *indexing_maps(op)[inputs:]]
    made, body = generic_with_body([value for value, _, _ in reads], list(op.operands)[inputs:], maps, iterators(op))
    old = [*(element for _, _, element in reads), *list(block.arguments)[inputs:]]
    known: dict[Value, Value] = {
        element: new for element, new in zip(old, body.arguments, strict=True) if element is not None
    }
    clone_into(body, ops or [each.operation for each in block.operations], known)
    return made


def passed_through(source: Value, target: Value) -> ir.Operation:
    """Makes a `linalg.generic` at the insertion point that copies each element: a vector pass."""
    rank = len(shape_of(source))
    passed, body = generic_with_body([source], [target], [ir.AffineMap.get_identity(rank)] * 2, ["parallel"] * rank)
    end_body(body, [body.arguments[0]])
    return passed


def copy_for_each_reader(module: ir.Module, op: ir.Operation) -> None:
    """Gives every linalg op that reads the op's result, except the first reader, its own copy of the op."""
    readers = [reader for reader in linalg_ops(module) if op.results[0] in list(reader.operands)]
    for reader in readers[1:]:
        with ir.InsertionPoint(reader):
            copied = op.clone()
        for position, value in enumerate(reader.operands):
            if value == op.results[0]:
                reader.operands[position] = copied.results[0]


def constants_apart(module: ir.Module) -> None:
    """Gives every use of an op that reads no tensor (a fill, or increasing numbers) its own copy of the op.

    Common-subexpression elimination merges equal ops. Two accumulators that start from one fill would then need a copy,
    and merged numbers of rows and of columns would make rows and columns one dim.
    """
    for op in linalg_ops(module):
        if len(op.results) == 1 and _reads_no_tensor(op):
            for use in sorted(op.results[0].uses, key=lambda use: use.operand_number)[1:]:
                with ir.InsertionPoint(op):
                    use.owner.operands[use.operand_number] = op.clone().results[0]


def _reads_no_tensor(op: ir.Operation) -> bool:
    if op.name not in ("linalg.fill", "linalg.generic"):
        return False  # all other ops, such as a transpose, read a tensor
    inputs: list[Value] = list(op.operands)[: segments(op)[0]]
    return not any(isinstance(each.type, ir.RankedTensorType) for each in inputs)
