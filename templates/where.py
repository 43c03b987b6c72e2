"""Builders of choices by a condition: `where`, also with plain numbers, and `masked_fill`."""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import arith

from workbench.mlir.bindings import Value
from workbench.operators.aten.registry import Registry
from workbench.scheduling.kernels.node_builder import Argument, NodeBuilder, converted


def choice(condition: str, then: str, otherwise: str) -> Callable[[NodeBuilder], Value]:
    """Builds `then` where `condition` is true, else `otherwise`: names of arguments, tensors or (these two) numbers."""

    def build(op: NodeBuilder) -> Value:
        sides = op[then], op[otherwise]
        tensors = [side for side in sides if isinstance(side, ir.Value)]

        def one(holds: Value, *numbers: Value) -> Value:
            left = zip(numbers, tensors, strict=True)

            def side(given: Argument) -> Value:
                if isinstance(given, bool | int | float):
                    return op.number(given)
                number, tensor = next(left)
                return converted(number, op.element, op.is_unsigned(tensor))

            return arith.select(holds, side(sides[0]), side(sides[1]))

        holds = op[condition]
        assert isinstance(holds, ir.Value)
        return op.elementwise(one, holds, *tensors)

    return build


def register(registry: Registry) -> None:
    """Registers the builders of this file."""
    where = ("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
    filled = ("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
    for overloads, builder in (
        (where, choice("condition", "self", "other")),
        (filled, choice("mask", "value", "self")),
    ):
        registry.builder(*overloads, dialect="arith", kind="elementwise")(builder)
