# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Roundings of constants, moved before the loop.

A number in an ATen call is a double. torch-mlir puts the double before the loop and its conversion into the body, so
that every element repeats it, and MLIR folds only exact conversions. PyTorch rounds the number once, and so do we.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from workbench.mlir.bindings import maker, named


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
