"""Recomputes wide elementwise results where they are read."""

from __future__ import annotations

from torch_mlir import ir

from workbench.mlir import named_dims as payloads
from workbench.mlir.bindings import integer
from workbench.mlir.linalg_ops import copy_for_each_reader, linalg_ops
from workbench.scheduling.passes.kernel_pass import module_pass
from workbench.scheduling.passes.results_in_place import behind_all, stores_of


@module_pass("npu-recompute")
def recompute(module: ir.Module) -> None:
    """Gives every reader of a wide elementwise result its own copy of the op, which fusion can take into the reader.

    A row that does not fit is walked once per reduction; each walk computes the intermediate values again instead of
    keeping them, and so does the walk that stores them.
    """
    payload = payloads.analyse(module)
    described = {op.id: op for op in payload.ops}
    for op in reversed(linalg_ops(module)):
        known = described[integer(op, payloads.ID)]
        if known.role == "elementwise" and set(known.loops) & set(payload.reduced):
            copy_for_each_reader(module, op)
            _copy_for_its_store(module, op)


def _copy_for_its_store(module: ir.Module, op: ir.Operation) -> None:
    """If a result is both stored and read by linalg ops, clones its op behind all computations, for the store alone."""
    read = any(op.results[0] in list(reader.operands) for reader in linalg_ops(module))
    stores = [store for store in stores_of(module) if store.operands[0] == op.results[0]]
    if read and stores:
        with behind_all(module):
            copied = op.clone()
        for store in stores:
            store.operands[0] = copied.results[0]
