"""The larger or smaller of two numbers as one operation.

torch-mlir writes it as a comparison and a select, which gives the wrong one of the two if one is NaN. PyTorch gives
NaN, as `arith.maximumf` does, and a vector unit computes it in one operation.
"""

from __future__ import annotations

from typing import Final

from torch_mlir import ir
from torch_mlir.dialects import arith

from workbench.mlir.bindings import integer, maker, named

_LARGER: Final = {"arith.cmpf": (2, 3, 9, 10), "arith.cmpi": (4, 5, 8, 9)}
"""Predicates, by number, that hold when the left operand is larger."""

_SMALLER: Final = {"arith.cmpf": (4, 5, 11, 12), "arith.cmpi": (2, 3, 6, 7)}

_UNSIGNED: Final = (6, 7, 8, 9)
"""Of `arith.cmpi`."""


def choose_extremes(module: ir.Module) -> None:
    """Replaces every select between two numbers by their comparison with one operation; in place."""
    for op in named(module, "arith.select"):
        condition, then, otherwise = op.operands
        compared = maker(condition)
        if compared is None or compared.name not in _LARGER:
            continue
        predicate = integer(compared, "predicate")
        kept, swapped = [then, otherwise], [otherwise, then]
        if list(compared.operands) not in (kept, swapped):
            continue
        larger, smaller = predicate in _LARGER[compared.name], predicate in _SMALLER[compared.name]
        if not larger and not smaller:
            continue
        largest = larger == (list(compared.operands) == kept)
        if compared.name == "arith.cmpf":
            made = arith.MaximumFOp if largest else arith.MinimumFOp
        elif predicate in _UNSIGNED:
            made = arith.MaxUIOp if largest else arith.MinUIOp
        else:
            made = arith.MaxSIOp if largest else arith.MinSIOp
        with ir.InsertionPoint(op), op.location:
            result = made(then, otherwise).result
        op.results[0].replace_all_uses_with(result)
        op.erase()
