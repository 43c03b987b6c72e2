"""Loop orders for native code: which dim of a reduction the innermost loop walks.

An op's loops nest in the order of its iterators. For a matmul that puts the sum innermost, where the CPU can neither
fill its vector registers nor read the right-hand side in order. Any order computes the same sums; this pass puts the
dim along which most operands lie contiguously innermost, the sums just around it, the rest outside.

If the sum itself is innermost, its additions may be regrouped: otherwise each addition waits for the one before. Only
the addition into the accumulator may be regrouped, so the arithmetic that the user wrote keeps its order.
"""

from __future__ import annotations

import re

from torch_mlir import ir

from workbench.mlir.bindings import segments
from workbench.mlir.context import operations
from workbench.mlir.linalg_loops import indexing_maps, iterators
from workbench.running.block_sums import cut_into_blocks


def speed_up_reductions(module: ir.Module) -> bool:
    """Reorders the loops of every `linalg.generic` that reduces, and cuts long sums into blocks; in place.

    Returns True if there is any such op.
    """
    generic = [op for op in operations(module.operation) if op.name == "linalg.generic"]
    reductions = [op for op in generic if "reduction" in iterators(op)]
    for operation in reductions:
        _let_sums_regroup(operation)
    for operation in generic:
        if len(iterators(operation)) > 1 and not knows_its_place(operation):
            _interchange(operation, loop_order(operation))
    for operation in reductions:
        cut_into_blocks(operation)
    return bool(reductions)


def knows_its_place(operation: ir.Operation) -> bool:
    """True if the body reads loop indices, or reads or writes memory itself: then the order of the loops may matter."""
    names = [item.operation.name for item in operation.regions[0].blocks[0].operations]
    return any(name == "linalg.index" or name.startswith("memref.") for name in names)


def loop_order(operation: ir.Operation) -> list[int]:
    """A faster order of a generic op's dims, outermost first. The innermost dim is the one along which the fewest
    operands jump. Around it are the sums, or, in an op without sums, the other dims by the result's strides."""
    kinds = iterators(operation)
    operands = list(zip(operation.operands, indexing_maps(operation), strict=True))
    jumps = [
        sum(_step(value.type, indexing, dim) not in (0, 1) for value, indexing in operands) for dim in range(len(kinds))
    ]
    # Of equally good dims a parallel one, and of those the last.
    innermost = min(reversed(range(len(kinds))), key=lambda dim: (jumps[dim], kinds[dim] == "reduction"))
    rest = [dim for dim in range(len(kinds)) if dim != innermost]
    if "reduction" not in kinds:
        *_, (result, indexing) = operands
        return [*sorted(rest, key=lambda dim: -(_step(result.type, indexing, dim) or 0)), innermost]
    return [*sorted(rest, key=lambda dim: kinds[dim] == "reduction"), innermost]


def _step(kind: ir.Type, indexing: ir.AffineMap, dim: int) -> int | None:
    """Returns the elements that a step along `dim` moves in an operand; None if that is unknown or many dims move."""
    if not isinstance(kind, ir.MemRefType):
        return 0
    strides, _ = kind.get_strides_and_offset()
    moved = [
        None if "*" in str(expr) else stride
        for stride, expr in zip(strides, indexing.results, strict=True)
        if re.search(rf"\bd{dim}\b", str(expr))
    ]
    return 0 if not moved else moved[0] if len(moved) == 1 else None


def _interchange(operation: ir.Operation, order: list[int]) -> None:
    count = len(order)
    with operation.context, ir.Location.unknown():
        place = {dim: position for position, dim in enumerate(order)}
        renamed = ir.AffineMap.get(count, 0, [ir.AffineDimExpr.get(place[dim]) for dim in range(count)])
        maps = [
            ir.AffineMap.get(count, 0, [expr.compose(renamed) for expr in item.results])
            for item in indexing_maps(operation)
        ]
        kinds = list(ir.ArrayAttr(operation.attributes["iterator_types"]))
        operation.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(item) for item in maps])
        operation.attributes["iterator_types"] = ir.ArrayAttr.get([kinds[dim] for dim in order])


def _let_sums_regroup(operation: ir.Operation) -> None:
    """Lets the CPU regroup the sum over the loop, and fuse its multiplication, but nothing else of the body."""
    block = operation.regions[0].blocks[0]
    accumulators = list(block.arguments)[segments(operation)[0] :]
    with operation.context:
        for item in list(block.operations):
            if item.operation.name == "arith.addf" and any(value in accumulators for value in item.operation.operands):
                item.operation.attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<reassoc,contract>")
                for value in item.operation.operands:
                    if isinstance(value, ir.OpResult) and value.owner.name == "arith.mulf":
                        value.owner.attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<contract>")
