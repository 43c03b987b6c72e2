"""Replaces functions that MLIR would decompose and so lose digits: exp(x) - 1, log(1 + x), and powers of floats.

LLVM has no op for the first two, so MLIR's conversion writes them as these formulas, which lose all digits near zero.
MLIR makes an integer power a chain of products: it overflows on the way to a tiny number, and may give -inf for 0 to
the power of -3. The C library has accurate versions of all three.
"""

from __future__ import annotations

from typing import Final

from torch_mlir import ir
from torch_mlir.dialects import arith, func, math

from workbench.mlir.bindings import Value, constant, named, replace_op
from workbench.mlir.context import operations

_FUNCTIONS: Final = {"math.expm1": "expm1", "math.log1p": "log1p"}


def call_library(module: ir.Module) -> None:
    """Replaces each `expm1` and `log1p` by a call of the C library; 16-bit floats go through f32. In place."""
    declared: set[str] = set()
    for op in [op for op in operations(module.operation) if op.name in _FUNCTIONS]:
        kind = op.results[0].type
        wide = kind if isinstance(kind, ir.F64Type) else ir.F32Type.get(module.context)
        name = _FUNCTIONS[op.name] + ("" if isinstance(kind, ir.F64Type) else "f")
        if name not in declared:
            declared.add(name)
            _declare(module, name, wide)
        with op.context, op.location, ir.InsertionPoint(op):
            given: Value = op.operands[0]
            if kind != wide:
                given = arith.ExtFOp(wide, given).result
            made: Value = func.CallOp([wide], name, [given]).results[0]
            if kind != wide:
                made = arith.TruncFOp(kind, made).result
        replace_op(op, made)


def raise_to_floats(module: ir.Module) -> None:
    """Replaces integer powers of floats by `math.powf`, one step instead of a chain of products; in place."""
    for op in named(module, "math.fpowi"):
        base, exponent = op.operands
        if (power := constant(exponent)) is None:
            continue
        with op.context, op.location, ir.InsertionPoint(op):
            value = float(ir.IntegerAttr(power).value)
            number = arith.ConstantOp(base.type, ir.FloatAttr.get(base.type, value)).result
            raised = math.PowFOp(base, number).result
        replace_op(op, raised)


def _declare(module: ir.Module, name: str, kind: ir.Type) -> None:
    """Declares a function of the C library, as one that reads and writes no memory."""
    with module.context, ir.Location.unknown(), ir.InsertionPoint.at_block_begin(module.body):
        declared = func.FuncOp(name, ir.FunctionType.get([kind], [kind]), visibility="private")
        declared.attributes["llvm.readnone"] = ir.UnitAttr.get()
