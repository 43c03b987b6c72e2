# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Roundings: those of constants, which happen before the loop, and one that the CPU has no instruction for.

And the one comparison that the code generator cannot be left alone with.

A number in an ATen call is a double. torch-mlir puts it before the loop as such and its conversion into the body, for
every element anew, and MLIR folds a conversion only if nothing is lost. PyTorch rounds the number once, and so do we.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from workbench.mlir.bindings import Value, maker, named


def round_constants(module: ir.Module) -> None:
    """Puts the rounded number in place of every rounding of a constant; in place."""
    for op in named(module, "arith.truncf"):
        source = maker(op.operands[0])
        if source is None or source.name != "arith.constant":
            continue
        kind = op.results[0].type
        if not isinstance(kind, ir.FloatType):
            continue
        with ir.InsertionPoint(source), op.location:
            value = ir.FloatAttr(source.attributes["value"]).value
            rounded = arith.ConstantOp(kind, ir.FloatAttr.get(kind, value)).result
        op.results[0].replace_all_uses_with(rounded)
        op.erase()


def narrow_in_steps(module: ir.Module) -> None:
    """Rounds doubles to f16 by way of f32, as PyTorch does; in place.

    The compiler would call a function for it that no library of the process has, and end the process so.
    """
    for op in named(module, "arith.truncf"):
        with op.context, op.location, ir.InsertionPoint(op):
            if isinstance(op.operands[0].type, ir.F64Type) and isinstance(op.results[0].type, ir.F16Type):
                op.operands[0] = arith.TruncFOp(ir.F32Type.get(), op.operands[0]).result


def compare_widened(module: ir.Module) -> None:
    """Compares bf16 as f32, of which it is the upper half; in place, in the LLVM dialect.

    The code generator for x86 ends the process over vectors of bf16 that are compared where the answers are used as
    16-bit numbers. The upper half is put in place by a shift: two conversions it would take back.
    """
    for op in named(module, "llvm.fcmp"):
        with op.context, op.location, ir.InsertionPoint(op):
            short, word = ir.IntegerType.get_signless(16), ir.IntegerType.get_signless(32)
            for position, value in enumerate(op.operands):
                if isinstance(value.type, ir.BF16Type):
                    upper = _llvm("zext", word, _llvm("bitcast", short, value))
                    whole = _llvm("shl", word, upper, _llvm("mlir.constant", word, value=ir.IntegerAttr.get(word, 16)))
                    op.operands[position] = _llvm("bitcast", ir.F32Type.get(), whole)


def _llvm(name: str, kind: ir.Type, *operands: Value, **attributes: ir.Attribute) -> Value:
    return ir.Operation.create(f"llvm.{name}", [kind], list(operands), attributes).result
