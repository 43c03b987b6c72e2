"""Lowers TOSA ops, which a builder may have made, to linalg by MLIR's own passes."""

from __future__ import annotations

from typing import Final

from torch_mlir import ir

from workbench.mlir.context import operations

TO_LINALG: Final = (
    "func.func(tosa-make-broadcastable,tosa-to-linalg-named,tosa-to-linalg,tosa-to-arith,tosa-to-tensor),canonicalize"
)
"""The pass pipeline. Broadcasting comes first: TOSA ops need operands of equal rank."""


def holds_tosa(module: ir.Module) -> bool:
    return any(op.name.startswith("tosa.") for op in operations(module.operation))
