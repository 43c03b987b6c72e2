# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
"""Wide elementwise results computed anew where they are read."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from workbench.mlir import named_dims as payloads
from workbench.mlir.bindings import integer
from workbench.mlir.named_dims import linalg_ops
from workbench.scheduling.passes.kernel_pass import KernelPass


@dataclass(frozen=True)
class Recompute(KernelPass):
    """Gives every reader of a wide elementwise result its own copy of the op, so that fusion can take it in.

    A row that does not fit is walked once per reduction; each walk computes the intermediate values anew instead of
    keeping them.
    """

    name = "npu-recompute"

    def run(self, module: ir.Module) -> None:
        reduced = payloads.analyse(module).reduced
        described = {op.id: op for op in payloads.analyse(module).ops}
        for op in reversed(linalg_ops(module)):
            number = integer(op, payloads.ID)
            if described[number].role != "elementwise" or not set(described[number].loops) & set(reduced):
                continue
            users = [user for user in linalg_ops(module) if op.results[0] in list(user.operands)]
            for user in users[1:]:
                with ir.InsertionPoint(user):
                    clone = op.clone()
                for position, value in enumerate(user.operands):
                    if value == op.results[0]:
                        user.operands[position] = clone.results[0]
