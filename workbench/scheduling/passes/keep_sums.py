"""Puts a copy behind each reduction, so that its partial sums are not written to the kernel's result.

If a loop over a parallel dim is inside a loop over a reduced dim, every tile of the result is updated many times. The
sums of all these tiles stay in the scratchpad, and the copy stores each finished sum once.
"""

from __future__ import annotations

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import tensor

from workbench.mlir.bindings import maker, named
from workbench.mlir.linalg_loops import iterators
from workbench.scheduling.passes.kernel_pass import module_pass


@module_pass("npu-keep-sums")
def keep_sums(module: ir.Module) -> None:
    """Puts a copy between each reducing op and the store of its result."""
    from torch_mlir.dialects import linalg

    build: Any = linalg.copy
    for store in named(module, "bufferization.materialize_in_destination"):
        value = store.operands[0]
        made = maker(value)
        if made is None or not made.name.startswith("linalg.") or "reduction" not in iterators(made):
            continue
        with ir.InsertionPoint(store), made.location:
            kind = ir.RankedTensorType(value.type)
            store.operands[0] = build(value, outs=[tensor.EmptyOp(kind.shape, kind.element_type).result])
