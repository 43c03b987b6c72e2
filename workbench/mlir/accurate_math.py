"""Functions that upstream would take apart, and so lose digits: exp(x) - 1 and log(1 + x), and powers of floats.

LLVM has no op for the first two, so upstream's conversion writes them out as they read, which leaves nothing near zero.
A whole power becomes a chain of products: it overflows on the way to a tiny number, and takes 0 to the power of -3 for
-inf. The C library has all three.
"""

from __future__ import annotations

from typing import Final

from torch_mlir import ir
from torch_mlir.dialects import arith, func, math

from workbench.mlir.bindings import Value, maker
from workbench.mlir.context import operations

_FUNCTIONS: Final = {"math.expm1": "expm1", "math.log1p": "log1p"}


def call_library(module: ir.Module) -> None:
    """Puts a call of the C library in place of each; 16-bit floats go through f32. In place."""
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
        op.results[0].replace_all_uses_with(made)
        op.erase()


def raise_to_floats(module: ir.Module) -> None:
    """Raises floats to whole powers as to any other, in one step; in place."""
    for op in [op for op in operations(module.operation) if op.name == "math.fpowi"]:
        base, exponent = op.operands
        power = maker(exponent)
        if power is None or power.name != "arith.constant":
            continue
        value = ir.IntegerAttr(power.attributes["value"]).value
        with op.context, op.location, ir.InsertionPoint(op):
            number = arith.ConstantOp(base.type, ir.FloatAttr.get(base.type, float(value))).result
            op.results[0].replace_all_uses_with(math.PowFOp(base, number).result)
        op.erase()


def _declare(module: ir.Module, name: str, kind: ir.Type) -> None:
    """Says that the function exists, and that it reads and writes no memory."""
    with module.context, ir.Location.unknown(), ir.InsertionPoint.at_block_begin(module.body):
        declared = func.FuncOp(name, ir.FunctionType.get([kind], [kind]), visibility="private")
        declared.attributes["llvm.readnone"] = ir.UnitAttr.get()
