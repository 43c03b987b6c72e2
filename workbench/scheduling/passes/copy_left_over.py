# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
"""Results that are their arguments: a copy each."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from workbench.mlir.bindings import copy, named
from workbench.mlir.memrefs import memref_behind
from workbench.scheduling.passes.kernel_pass import KernelPass


@dataclass(frozen=True)
class CopyLeftOver(KernelPass):
    """Copies each result that folding has left equal to an argument: a sum over one element, for one."""

    name = "npu-copy-left-over"

    def run(self, module: ir.Module) -> None:
        for op in named(module, "bufferization.materialize_in_destination"):
            source, target = memref_behind(op.operands[0]), op.operands[1]
            if source is not None:
                with ir.InsertionPoint(op), op.location:
                    copy(source, target)
                op.erase()
