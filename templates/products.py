"""The builder of matrix products whose sums are wider than their factors, as in a systolic array."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from workbench.mlir.bindings import Value
from workbench.mlir.linalg_ops import end_body, generic_with_body
from workbench.operators.aten.extra_ops import MATMUL
from workbench.operators.aten.registry import Registry
from workbench.scheduling.kernels.node_builder import UNSIGNED, NodeBuilder, converted


def matmul(op: NodeBuilder) -> Value:
    """Sums of products in the result's type; each factor is converted to that type before it is multiplied."""
    from torch_mlir.dialects import linalg

    left, right = op.operands
    rank = len(op.type.shape)
    batch = list(range(rank - 2))
    m, n, k = rank - 2, rank - 1, rank
    maps = [_map(rank + 1, dims) for dims in ([*batch, m, k], [*batch, k, n], [*batch, m, n])]
    zeros = linalg.fill(op.number(0), outs=[op.empty()])
    made, body = generic_with_body([left, right], [zeros], maps, ["parallel"] * rank + ["reduction"])
    with ir.InsertionPoint(body):
        x, y, total = body.arguments
        x, y = (converted(each, op.element, dtype in UNSIGNED) for each, dtype in zip((x, y), op.dtypes, strict=True))
        if isinstance(op.element, ir.FloatType):
            total = arith.addf(total, arith.mulf(x, y))
        else:
            total = arith.addi(total, arith.muli(x, y))
    end_body(body, [total])
    return made.result


def _map(count: int, dims: list[int]) -> ir.AffineMap:
    return ir.AffineMap.get(count, 0, [ir.AffineDimExpr.get(dim) for dim in dims])


def register(registry: Registry) -> None:
    """Registers the builders of this file."""
    registry.builder(MATMUL, dialect="linalg", kind="contraction")(matmul)
