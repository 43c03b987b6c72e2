# pyright: reportAttributeAccessIssue=false, reportUnknownMemberType=false
"""Builders of tensors with known contents: `full`, and `arange`, which counts along its one dim.

Dims of one element may surround that dim: a creation op is computed where it is read, in the shape of the reader.
"""

from __future__ import annotations

from typing import cast

from torch_mlir import ir
from torch_mlir.dialects import arith

from workbench.mlir.bindings import Value
from workbench.operators.aten.registry import Registry
from workbench.scheduling.kernels.node_builder import NodeBuilder, to_float


def full(op: NodeBuilder) -> Value:
    from torch_mlir.dialects import linalg

    return linalg.fill(op.number(cast("bool | int | float", op["fill_value"])), outs=[op.empty()])


def arange(op: NodeBuilder) -> Value:
    """`start + step * place`: in integers, or in floats of the result's width; 16-bit floats are computed in f32."""
    from torch_mlir.dialects import linalg

    start, step = (cast("int | float", op.arguments.get(name, other)) for name, other in (("start", 0), ("step", 1)))
    shape = op.result_types[0].shape
    dim = next((axis for axis, extent in enumerate(shape) if extent != 1), 0)
    floats = isinstance(op.element, ir.FloatType)
    wide = ir.F32Type.get() if floats and op.element.width < 32 else op.element
    if not floats and not all(isinstance(each, int) for each in (start, step)):
        wide = ir.F64Type.get()  # PyTorch counts in fractions here, and cuts each number

    def one() -> Value:
        place: Value = arith.index_cast(ir.IntegerType.get_signless(64), linalg.IndexOp(dim).result)
        if isinstance(wide, ir.FloatType):
            place = to_float(place, wide)
            if step != 1:
                place = arith.mulf(place, op.number(step, like=wide))
            place = arith.addf(place, op.number(start, like=wide)) if start else place
            return to_float(place, op.element) if floats else arith.fptosi(op.element, place)
        place = place if wide.width == 64 else arith.trunci(wide, place)
        if step != 1:
            place = arith.muli(place, op.number(step))
        return arith.addi(place, op.number(start)) if start else place

    return op.elementwise(one)


def register(registry: Registry) -> None:
    """Registers the builders of this file."""
    registry.builder("aten.full.default", dialect="linalg", kind="creation")(full)
    counted = ("aten.arange.default", "aten.arange.start", "aten.arange.start_step")
    registry.builder(*counted, dialect="linalg", kind="creation")(arange)
