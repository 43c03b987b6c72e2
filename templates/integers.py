# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
"""Builders of bit operations, of division with a remainder, and of powers, for whole numbers and floats.

No kernel may trap. A whole number divided by zero, which PyTorch refuses, gives some number here; the smallest number
divided by -1 gives itself, since integers wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, math

from workbench.mlir.bindings import Value
from workbench.operators.aten.registry import Registry
from workbench.scheduling.kernels.node_builder import UNSIGNED, NodeBuilder, converted


def of_two(
    op: NodeBuilder,
    fn: Callable[[Value, Value], Value],
    left: str = "self",
    right: str = "other",
    *,
    rounded: bool = False,
) -> Value:
    """Applies `fn` to two arguments as numbers of the result's type; one of the arguments may be a plain number.

    Results of 16 bits are computed in 32. A plain number is used in 32 bits too, unless it is `rounded` first, as the
    elements of tensors are.
    """
    x, y = (op.numbers.get(name, op[name]) for name in (left, right))

    def alike(number: bool | int | float, other: Value) -> Value:
        if rounded and isinstance(other.type, ir.FloatType):
            return converted(op.number(number), other.type)
        return op.number(number, like=other)

    if isinstance(x, ir.Value) and isinstance(y, ir.Value):
        return op.elementwise(fn, x, y, compute="result")
    if isinstance(x, ir.Value) and isinstance(y, bool | int | float):
        return op.elementwise(lambda number: fn(number, alike(y, number)), x, compute="result")
    assert isinstance(y, ir.Value)
    assert isinstance(x, bool | int | float)
    return op.elementwise(lambda number: fn(alike(x, number), number), y, compute="result")


def is_number(op: NodeBuilder, name: str) -> bool:
    """True if an argument is a plain number. PyTorch rounds such a first operand to the other's type, but no second."""
    return not isinstance(op.numbers.get(name, op[name]), ir.Value)


def bitwise(made: Callable[..., Any]) -> Callable[[NodeBuilder], Value]:
    return lambda op: of_two(op, made)


def logical_xor(op: NodeBuilder) -> Value:
    truth = ir.IntegerType.get_signless(1)
    return op.elementwise(lambda x, y: arith.xori(converted(x, truth), converted(y, truth)), *op.operands)


def shift(left: bool) -> Callable[[NodeBuilder], Value]:
    """Builds a shift of bits by a count. A negative or too large count moves all bits out; to the right, signs stay."""

    def build(op: NodeBuilder) -> Value:
        unsigned = op.result_types[0].dtype == "u8"

        def one(x: Value, count: Value) -> Value:
            width = ir.IntegerType(x.type).width
            inside = arith.cmpi(arith.CmpIPredicate.ult, count, op.number(width, like=x))
            by = arith.select(inside, count, op.number(width - 1, like=x))
            if left:
                return arith.select(inside, arith.shli(x, by), op.number(0, like=x))
            if unsigned:
                return arith.select(inside, arith.shrui(x, by), op.number(0, like=x))
            return arith.shrsi(x, by)

        return of_two(op, one)

    return build


def divided(op: NodeBuilder, x: Value, y: Value, unsigned: bool) -> tuple[Value, Value]:
    """The quotient, rounded towards zero, and the remainder of whole numbers, by a division that cannot trap."""
    zero, one = op.number(0, like=x), op.number(1, like=x)
    trap = arith.cmpi(arith.CmpIPredicate.eq, y, zero)
    if unsigned:
        by = arith.select(trap, one, y)
        return arith.divui(x, by), arith.remui(x, by)
    opposite = arith.cmpi(arith.CmpIPredicate.eq, y, op.number(-1, like=x))
    by = arith.select(arith.ori(trap, opposite), one, y)
    quotient = arith.select(opposite, arith.subi(zero, x), arith.divsi(x, by))
    return quotient, arith.remsi(x, by)


def different_signs(op: NodeBuilder, x: Value, y: Value) -> Value:
    if isinstance(x.type, ir.FloatType):
        zero, below = op.number(0.0, like=x), arith.CmpFPredicate.OLT
        return arith.xori(arith.cmpf(below, x, zero), arith.cmpf(below, y, zero))
    zero, less = op.number(0, like=x), arith.CmpIPredicate.slt
    return arith.cmpi(less, arith.xori(x, y), zero)


def not_zero(op: NodeBuilder, x: Value) -> Value:
    zero = op.number(0, like=x)
    if isinstance(x.type, ir.FloatType):
        return arith.cmpf(arith.CmpFPredicate.UNE, x, zero)
    return arith.cmpi(arith.CmpIPredicate.ne, x, zero)


def by_type(
    op: NodeBuilder,
    floats: Callable[[Value, Value], Value],
    whole: Callable[[Value, Value, bool], Value],
    *,
    rounded: bool = False,
) -> Value:
    """`of_two` with a function for floats, and one for whole numbers; the latter also gets True for unsigned ones."""
    unsigned = op.result_types[0].dtype == "u8"

    def one(x: Value, y: Value) -> Value:
        return floats(x, y) if isinstance(x.type, ir.FloatType) else whole(x, y, unsigned)

    return of_two(op, one, rounded=rounded)


def fmod(op: NodeBuilder) -> Value:
    """The remainder with the sign of the dividend."""
    return by_type(op, arith.remf, lambda x, y, unsigned: divided(op, x, y, unsigned)[1], rounded=True)


def remainder(op: NodeBuilder) -> Value:
    """The remainder with the sign of the divisor."""

    def turned(y: Value, left: Value, more: Callable[[Value, Value], Value]) -> Value:
        other = arith.andi(not_zero(op, left), different_signs(op, left, y))
        return arith.select(other, more(left, y), left)

    def whole(x: Value, y: Value, unsigned: bool) -> Value:
        left = divided(op, x, y, unsigned)[1]
        return left if unsigned else turned(y, left, arith.addi)

    return by_type(op, lambda x, y: turned(y, arith.remf(x, y), arith.addf), whole, rounded=True)


def floor_division(op: NodeBuilder) -> Value:
    """The quotient rounded down."""

    def whole(x: Value, y: Value, unsigned: bool) -> Value:
        quotient, left = divided(op, x, y, unsigned)
        if unsigned:
            return quotient
        lower = arith.andi(not_zero(op, left), different_signs(op, left, y))
        return arith.select(lower, arith.subi(quotient, op.number(1, like=x)), quotient)

    return by_type(op, lambda x, y: _floor_of_floats(op, x, y), whole, rounded=is_number(op, "self"))


def _floor_of_floats(op: NodeBuilder, x: Value, y: Value) -> Value:
    """The floor of a quotient, computed from the exact remainder, since the quotient may have been rounded up to a
    whole number."""
    left = arith.remf(x, y)
    exact = arith.divf(arith.subf(x, left), y)
    lower = arith.andi(not_zero(op, left), different_signs(op, left, y))
    exact = arith.select(lower, arith.subf(exact, op.number(1.0, like=x)), exact)
    whole = math.floor(exact)
    rest = arith.cmpf(arith.CmpFPredicate.OGT, arith.subf(exact, whole), op.number(0.5, like=x))
    whole = arith.select(rest, arith.addf(whole, op.number(1.0, like=x)), whole)
    quotient = arith.divf(x, y)
    signed_zero = math.copysign(op.number(0.0, like=x), quotient)
    whole = arith.select(not_zero(op, exact), whole, signed_zero)
    return arith.select(not_zero(op, y), whole, quotient)  # a divisor of 0: infinite, or NaN


def truncated_division(op: NodeBuilder) -> Value:
    """The quotient rounded towards zero."""
    return by_type(op, lambda x, y: math.trunc(arith.divf(x, y)), lambda x, y, unsigned: divided(op, x, y, unsigned)[0])


def division(op: NodeBuilder) -> Value:
    """`div` with a rounding mode; None gives the quotient without rounding."""
    if op["rounding_mode"] is None:
        return of_two(op, arith.divf)
    return floor_division(op) if op["rounding_mode"] == "floor" else truncated_division(op)


def power(op: NodeBuilder) -> Value:
    """One number to the power of another; the base, or the exponent, may be a plain number."""
    if isinstance(op.element, ir.FloatType):
        return of_two(op, math.powf, "self", "exponent", rounded=is_number(op, "self"))

    def one(base: Value, exponent: Value) -> Value:
        wide, unsigned = ir.IntegerType.get_signless(64), op.result_types[0].dtype in UNSIGNED
        made = _whole_power(op, *(converted(each, wide, unsigned) for each in (base, exponent)))
        return converted(made, op.element)

    return of_two(op, one, "self", "exponent")


def _whole_power(op: NodeBuilder, base: Value, exponent: Value) -> Value:
    """A power of integers, which wraps. With a negative exponent it is 1, -1 or 0, as in PyTorch."""
    equal, (zero, one, minus) = arith.CmpIPredicate.eq, (op.number(each, like=base) for each in (0, 1, -1))
    negative = arith.cmpi(arith.CmpIPredicate.slt, exponent, zero)
    made = math.ipowi(base, arith.select(negative, zero, exponent))
    odd = arith.cmpi(equal, arith.andi(exponent, one), one)
    of_minus_one = arith.select(odd, minus, one)
    inverse = arith.select(arith.cmpi(equal, base, minus), of_minus_one, zero)
    inverse = arith.select(arith.cmpi(equal, base, one), one, inverse)
    return arith.select(negative, inverse, made)


def register(registry: Registry) -> None:
    """Registers the builders of this file."""
    kinds = {"and": arith.andi, "or": arith.ori, "xor": arith.xori}
    builders: dict[str, Callable[[NodeBuilder], Value]] = {"aten.bitwise_xor.Tensor": bitwise(arith.xori)}
    for name, made in kinds.items():
        overloads = (f"bitwise_{name}.Scalar", f"bitwise_{name}.Scalar_Tensor", f"__{name}__.Tensor")
        builders |= dict.fromkeys((f"aten.{each}" for each in (*overloads, f"__{name}__.Scalar")), bitwise(made))
    for name, left in (("left", True), ("right", False)):
        own = [f"aten.bitwise_{name}_shift.{each}" for each in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")]
        short = [f"aten.__{name[0]}shift__.{each}" for each in ("Tensor", "Scalar")]
        builders |= dict.fromkeys((*own, *short), shift(left))
    for name, builder in (("fmod", fmod), ("remainder", remainder)):
        builders |= {f"aten.{name}.Tensor": builder, f"aten.{name}.Scalar": builder}
    builders |= {
        "aten.remainder.Scalar_Tensor": remainder,
        "aten.floor_divide.default": floor_division,
        "aten.floor_divide.Scalar": floor_division,
        "aten.div.Tensor_mode": division,
        "aten.div.Scalar_mode": division,
        "aten.logical_xor.default": logical_xor,
    }
    for overload, builder in builders.items():
        registry.builder(overload, dialect="arith", kind="elementwise")(builder)
    registry.builder("aten.pow.Tensor_Tensor", "aten.pow.Scalar", dialect="math", kind="elementwise")(power)
