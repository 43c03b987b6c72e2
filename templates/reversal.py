"""The builder of `flip`: a slice that steps backwards. Strides can say it, so the copy engine does all the work."""

from __future__ import annotations

from typing import cast

from torch_mlir.dialects import tensor

from workbench.mlir.bindings import Value
from workbench.operators.aten.registry import Registry
from workbench.scheduling.kernels.node_builder import NodeBuilder


def flip(op: NodeBuilder) -> Value:
    shape = op.result_types[0].shape
    turned = {dim % len(shape) for dim in cast("tuple[int, ...]", op["dims"])}
    starts = [extent - 1 if axis in turned else 0 for axis, extent in enumerate(shape)]
    steps = [-1 if axis in turned else 1 for axis in range(len(shape))]
    return tensor.ExtractSliceOp(op.type, op.operands[0], [], [], [], starts, list(shape), steps).result


def register(registry: Registry) -> None:
    """Registers the builder of this file."""
    registry.builder("aten.flip.default", dialect="tensor", kind="opaque")(flip)
