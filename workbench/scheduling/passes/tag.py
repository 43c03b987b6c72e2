"""The pass that gives each op an id."""

from __future__ import annotations

from torch_mlir import ir

from workbench.mlir.named_dims import tag
from workbench.scheduling.passes.kernel_pass import module_pass


@module_pass("npu-tag")
def name_ops(module: ir.Module) -> None:
    """Gives every linalg op its id, and every reader of a constant its own copy of the constant."""
    tag(module)
