"""Names for the ops: an id each."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from workbench.mlir.named_dims import tag
from workbench.scheduling.passes.kernel_pass import KernelPass


@dataclass(frozen=True)
class Tag(KernelPass):
    """Every linalg op gets its id, and every reader of a constant one of its own."""

    name = "npu-tag"

    def run(self, module: ir.Module) -> None:
        tag(module)
