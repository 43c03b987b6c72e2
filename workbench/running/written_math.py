"""Writes exp, erf and tanh of f32 as arithmetic without branches, so that LLVM computes as many at once as a register
holds.

A call of the C library takes one number at a time. The polynomials are those that N. Juffa published; the largest
errors, against float64 on millions of numbers (`tests/running/test_written_math.py`), are 0.9 units in the last place
for exp, 1.0 for erf and 1.9 for tanh. The polynomials need fused multiplications and additions: a processor without
these calls the C library. 16-bit floats go through f32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from torch_mlir import ir
from torch_mlir.dialects import arith, math

from workbench.ground.environment.processor import Processor
from workbench.mlir.bindings import Value, replace_op
from workbench.mlir.context import operations

_SHIFT: Final = 12582912.0
"""1.5 * 2**23: adding a number to it rounds that number to a whole one, which the sum's last bits then hold."""

_SHIFT_BITS: Final = 0x4B400000


def write_math(module: ir.Module, target: Processor) -> None:
    """Replaces each of these functions by arithmetic, if the processor fuses multiplications; in place."""
    if not target.fuses_multiplications:
        return
    for op in [op for op in operations(module.operation) if op.name in _WRITTEN]:
        kind = op.results[0].type
        if not isinstance(kind, ir.F32Type | ir.F16Type | ir.BF16Type):
            continue
        with op.context, op.location, ir.InsertionPoint(op):
            single = ir.F32Type.get()
            given = op.operands[0] if kind == single else arith.ExtFOp(single, op.operands[0]).result
            made = _WRITTEN[op.name](given)
            made = made if kind == single else arith.TruncFOp(kind, made).result
        replace_op(op, made)


def _exp(x: Value) -> Value:
    """e**x as 2**i * e**r, with r as small as possible. The factor 2**i is applied in two steps, since it may be too
    large for one float."""
    x = _at_most(x, 89.0)
    x = arith.SelectOp(_compared("olt", x, -105.0), _number(-105.0), x).result
    shifted = _fma(x, _number(1.442695041), _number(_SHIFT))
    whole = arith.SubFOp(shifted, _number(_SHIFT)).result
    rest = _fma(whole, _number(-6.93145752e-1), x)
    rest = _fma(whole, _number(-1.42860677e-6), rest)
    made = _polynomial(rest, 1.37805939e-3, 8.37312452e-3, 4.16695364e-2, 1.66664720e-1, 4.99999851e-1, 1.0, 1.0)
    word = ir.IntegerType.get_signless(32)
    power = arith.SubIOp(arith.BitcastOp(word, shifted).result, _word(_SHIFT_BITS)).result
    half = arith.ShRSIOp(power, _word(1)).result
    for each in (half, arith.SubIOp(power, half).result):
        bits = arith.ShLIOp(arith.AddIOp(each, _word(127)).result, _word(23)).result
        made = arith.MulFOp(made, arith.BitcastOp(x.type, bits).result).result
    return made


def _erf(x: Value) -> Value:
    size, square = math.AbsFOp(x).result, arith.MulFOp(x, x).result
    far = _at_most(size, 10.0)
    upper = _fma(_number(-1.72853470e-5), far, _number(3.83197126e-4))
    lower = _fma(_number(-3.88396438e-3), far, _number(2.42546219e-2))
    power = _fma(upper, arith.MulFOp(far, far).result, lower)
    for factor in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        power = _fma(power, far, _number(factor))
    power = _fma(power, far, arith.NegFOp(far).result)
    outer = math.CopySignOp(arith.SubFOp(_number(1.0), _exp(power)).result, x).result
    inner = _polynomial(
        square, -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1
    )
    return arith.SelectOp(_compared("ogt", size, 0.927734375), outer, _fma(inner, x, x)).result


def _tanh(x: Value) -> Value:
    size, square = math.AbsFOp(x).result, arith.MulFOp(x, x).result
    double = arith.MulFOp(_at_most(size, 44.0), _number(2.0)).result
    above = arith.AddFOp(_exp(double), _number(1.0)).result
    outer = arith.SubFOp(_number(1.0), arith.DivFOp(_number(2.0), above).result).result
    inner = _polynomial(square, 1.57394409e-2, -5.23025580e-2, 1.33152470e-1, -3.33327681e-1)
    inner = _fma(arith.MulFOp(inner, square).result, x, x)
    return math.CopySignOp(arith.SelectOp(_compared("oge", size, 0.55), outer, inner).result, x).result


_WRITTEN: Final[Mapping[str, Callable[[Value], Value]]] = MappingProxyType(
    {"math.exp": _exp, "math.erf": _erf, "math.tanh": _tanh}
)


def _polynomial(x: Value, first: float, *factors: float) -> Value:
    made = _number(first)
    for factor in factors:
        made = _fma(made, x, _number(factor))
    return made


def _at_most(x: Value, most: float) -> Value:
    """The lesser of `x` and `most`; a NaN stays a NaN."""
    return arith.SelectOp(_compared("ogt", x, most), _number(most), x).result


_PREDICATES: Final = MappingProxyType({"ogt": 2, "oge": 3, "olt": 4})


def _compared(how: str, x: Value, number: float) -> Value:
    return arith.CmpFOp(_PREDICATES[how], x, _number(number)).result


def _fma(left: Value, right: Value, added: Value) -> Value:
    return math.FmaOp(left, right, added).result


def _number(value: float) -> Value:
    return arith.ConstantOp(ir.F32Type.get(), value).result


def _word(value: int) -> Value:
    return arith.ConstantOp(ir.IntegerType.get_signless(32), value).result
