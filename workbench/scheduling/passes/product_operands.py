"""Operands of a product kept apart from it, while neighbours that are elementwise are fused.

MLIR fuses an elementwise op into any generic op that reads it. A product with an extent of one is a generic op. With
other arithmetic in its body no array could compute it, and the arithmetic would be repeated for every point of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import bufferization

from workbench.mlir.bindings import maker, named, segments
from workbench.mlir.linalg_loops import role_of
from workbench.mlir.linalg_ops import linalg_ops
from workbench.scheduling.passes.kernel_pass import KernelPass

_HELD = "bufferization.alloc_tensor"


@dataclass(frozen=True)
class HoldOperands(KernelPass):
    """Puts a copy between a product that is a generic op and each op that makes an operand of it."""

    name = "npu-hold-operands"

    def run(self, module: ir.Module) -> None:
        for op in linalg_ops(module):
            if op.name != "linalg.generic" or role_of(op) != "contraction":
                continue
            for position in range(segments(op)[0]):
                value = op.operands[position]
                if (made := maker(value)) is not None and made.name == "linalg.generic":
                    with ir.InsertionPoint(op), op.location:
                        op.operands[position] = bufferization.AllocTensorOp(value.type, [], copy=value).result


@dataclass(frozen=True)
class ReleaseOperands(KernelPass):
    """Takes these copies out."""

    name = "npu-release-operands"

    def run(self, module: ir.Module) -> None:
        for op in named(module, _HELD):
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()


def makes_operands(module: ir.Module) -> bool:
    """True if an op of the kernel makes an operand of a product that is a generic op."""
    return any(
        (made := maker(op.operands[position])) is not None and made.name == "linalg.generic"
        for op in linalg_ops(module)
        if op.name == "linalg.generic" and role_of(op) == "contraction"
        for position in range(segments(op)[0])
    )
