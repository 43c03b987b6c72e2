# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Roundings of constants, which happen before the loop.

A number in an ATen call is a double. torch-mlir puts it before the loop as such and its conversion into the body, for
every element anew, and MLIR folds a conversion only if nothing is lost. PyTorch rounds the number once, and so do we.
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
