# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
"""All results of a kernel made by one op, which is tiled with everything it reads."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import linalg, tensor

from workbench.mlir.bindings import named, shape_of
from workbench.scheduling.passes.kernel_pass import KernelPass

_STORED = "bufferization.materialize_in_destination"


def results_apart(module: ir.Module) -> bool:
    """Whether a kernel stores results of more than one op."""
    return len({store.operands[0].owner for store in named(module, _STORED)}) > 1


@dataclass(frozen=True)
class JoinResults(KernelPass):
    """An op that hands all results on, the last one last: elementwise fusion takes the op that makes this one in."""

    name = "npu-join-results"

    def run(self, module: ir.Module) -> None:
        stores = named(module, _STORED)
        values = [store.operands[0] for store in stores]
        if len({tuple(shape_of(value)) for value in values}) > 1:
            return
        with stores[0].context, ir.InsertionPoint(stores[0]), stores[-1].location:
            kinds = [ir.RankedTensorType(value.type) for value in values]
            empty = [tensor.EmptyOp(kind.shape, kind.element_type).result for kind in kinds]
            rank = len(kinds[0].shape)
            same = ir.AffineMap.get_identity(rank)
            joined = linalg.GenericOp(kinds, values, empty, [same] * (2 * len(values)), ["parallel"] * rank)
            block = joined.regions[0].blocks.append(*(kind.element_type for kind in [*kinds, *kinds]))
            with ir.InsertionPoint(block):
                linalg.YieldOp(list(block.arguments)[: len(values)])
        for store, result in zip(stores, joined.results, strict=True):
            store.operands[0] = result
