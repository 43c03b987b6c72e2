"""Joins several results of a kernel in one op, which is tiled together with everything it reads."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import tensor

from workbench.mlir.bindings import maker, shape_of
from workbench.mlir.linalg_loops import role_of
from workbench.mlir.linalg_ops import end_body, generic_with_body, linalg_ops
from workbench.scheduling.passes.kernel_pass import module_pass
from workbench.scheduling.passes.results_in_place import behind_all, stores_of, unread_results


def results_apart(module: ir.Module) -> bool:
    """True if several ops make results that `join_results` can join in one op."""
    return len({store.operands[0].owner for store in _joined(module)}) > 1


@module_pass("npu-join-results")
def join_results(module: ir.Module) -> None:
    """Adds an op that returns several results unchanged: elementwise fusion then fuses the ops that make them into it.

    These are the largest results that elementwise ops make. Others are stored where they are made
    (`results_in_place.py`).
    """
    stores = _joined(module)
    values = [store.operands[0] for store in stores]
    with stores[0].context, behind_all(module), stores[-1].location:
        kinds = [ir.RankedTensorType(value.type) for value in values]
        empty = [tensor.EmptyOp(kind.shape, kind.element_type).result for kind in kinds]
        rank = len(kinds[0].shape)
        same = ir.AffineMap.get_identity(rank)
        joined, body = generic_with_body(values, empty, [same] * (2 * len(values)), ["parallel"] * rank)
        end_body(body, list(body.arguments)[: len(values)])
    for store, result in zip(stores, joined.results, strict=True):
        store.operands[0] = result


def _joined(module: ir.Module) -> list[ir.Operation]:
    """The stores of the results that the added op returns; empty if a reduction of them is the kernel's last op."""
    stores = stores_of(module)
    if len(stores) < 2:
        return stores
    ends = unread_results(module)
    widest = max(len(shape_of(store.operands[0])) for store in stores)
    wide = [store for store in stores if len(shape_of(store.operands[0])) == widest]
    last = any(store in ends for store in wide)
    return [store for store in wide if _is_elementwise(module, store)] if last else []


def _is_elementwise(module: ir.Module, store: ir.Operation) -> bool:
    op = maker(store.operands[0])
    return op is None or op not in linalg_ops(module) or role_of(op) == "elementwise"
