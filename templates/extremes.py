"""Builders of reductions that torch-mlir lacks in a usable form: argmax, argmin, prod, any, all."""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import arith

from templates.writing import worst_number
from workbench.mlir.bindings import Value
from workbench.operators.aten.registry import Registry
from workbench.scheduling.kernels.node_builder import NodeBuilder
from workbench.scheduling.kernels.node_reductions import fold, fold_numbers

LAST_PLACE = 2**63 - 1
"""A place after every other place."""


def extreme_place(largest: bool) -> Callable[[NodeBuilder], Value]:
    """Builds the place of the largest or smallest number, the first of equals; a NaN is beyond all numbers.

    Number and place are folded together. Of equal numbers the lower place wins, so the order of folding is free.
    """

    def build(op: NodeBuilder) -> Value:
        (operand,) = op.operands
        element = ir.RankedTensorType(operand.type).element_type
        unsigned = op.is_unsigned(operand)

        def take(number: Value, best: Value, best_place: Value, place: Callable[[], Value]) -> list[Value]:
            here = arith.index_cast(op.element, place())
            further = arith.cmpi(arith.CmpIPredicate.slt, here, best_place)
            better = beyond(number, best, largest, unsigned)
            first = arith.andi(further, negated(op, beyond(best, number, largest, unsigned)))
            taken = arith.ori(better, first)
            return [arith.select(taken, number, best), arith.select(taken, here, best_place)]

        floats, bits = isinstance(element, ir.FloatType), getattr(element, "width")  # noqa: B009 - on subclasses only
        start = [op.number(worst_number(floats, bits, unsigned, largest), like=element), op.number(LAST_PLACE)]
        return fold(op, operand, start, take, bool(op.arguments.get("keepdim")))[1]

    return build


def beyond(left: Value, right: Value, largest: bool, unsigned: bool) -> Value:
    """True where `left` is larger (or smaller) than `right`, or `left` is a NaN and `right` a number."""
    if isinstance(left.type, ir.FloatType):
        compared = arith.cmpf(arith.CmpFPredicate.OGT if largest else arith.CmpFPredicate.OLT, left, right)
        nan, number = arith.CmpFPredicate.UNO, arith.CmpFPredicate.ORD
        return arith.ori(compared, arith.andi(arith.cmpf(nan, left, left), arith.cmpf(number, right, right)))
    greater, less = (
        (arith.CmpIPredicate.ugt, arith.CmpIPredicate.ult)
        if unsigned
        else (arith.CmpIPredicate.sgt, arith.CmpIPredicate.slt)
    )
    return arith.cmpi(greater if largest else less, left, right)


def negated(op: NodeBuilder, condition: Value) -> Value:
    return arith.xori(condition, op.number(True, like=condition))


def product(op: NodeBuilder) -> Value:
    def times(number: Value, so_far: Value) -> Value:
        return (arith.mulf if isinstance(number.type, ir.FloatType) else arith.muli)(so_far, number)

    return fold_numbers(op, 1, times)


def any_true(op: NodeBuilder) -> Value:
    return fold_numbers(op, False, lambda number, so_far: arith.ori(so_far, number), ir.IntegerType.get_signless(1))


def all_true(op: NodeBuilder) -> Value:
    return fold_numbers(op, True, lambda number, so_far: arith.andi(so_far, number), ir.IntegerType.get_signless(1))


def register(registry: Registry) -> None:
    """Registers the builders of this file."""
    for overload, builder in (
        ("aten.argmax.default", extreme_place(largest=True)),
        ("aten.argmin.default", extreme_place(largest=False)),
        ("aten.prod.default", product),
        ("aten.prod.dim_int", product),
        ("aten.any.default", any_true),
        ("aten.any.dim", any_true),
        ("aten.any.dims", any_true),
        ("aten.all.default", all_true),
        ("aten.all.dim", all_true),
        ("aten.all.dims", all_true),
    ):
        registry.builder(overload, dialect="arith", kind="reduction")(builder)
