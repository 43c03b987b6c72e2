"""Keeps the ops that make a product's operands out of the product, while elementwise neighbours are fused.

MLIR fuses an elementwise op into any generic op that reads it, and a product with an extent of one is a generic op.
With other arithmetic in its body no array could compute the product, and the arithmetic would be repeated for every
point.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch_mlir import ir
from torch_mlir.dialects import bufferization

from workbench.mlir.bindings import maker, named, replace_op, segments
from workbench.mlir.linalg_loops import role_of
from workbench.mlir.linalg_ops import linalg_ops
from workbench.scheduling.passes.kernel_pass import module_pass

_HELD = "bufferization.alloc_tensor"


@module_pass("npu-hold-operands")
def hold_operands(module: ir.Module) -> None:
    """Puts a copy between each product that is a generic op and the ops that make its operands."""
    for op, position in _made_operands(module):
        value = op.operands[position]
        with ir.InsertionPoint(op), op.location:
            op.operands[position] = bufferization.AllocTensorOp(value.type, [], copy=value).result


@module_pass("npu-release-operands")
def release_operands(module: ir.Module) -> None:
    """Removes the copies that `npu-hold-operands` made."""
    for op in named(module, _HELD):
        replace_op(op, op.operands[0])


def makes_operands(module: ir.Module) -> bool:
    """True if an op of the kernel makes an operand of a product that is a generic op."""
    return any(True for _ in _made_operands(module))


def _made_operands(module: ir.Module) -> Iterator[tuple[ir.Operation, int]]:
    """(product, operand's position) for each operand that a generic op makes of a product that is a generic op."""
    for op in linalg_ops(module):
        if op.name == "linalg.generic" and role_of(op) == "contraction":
            for position in range(segments(op)[0]):
                if maker(op.operands[position], "linalg.generic") is not None:
                    yield op, position
