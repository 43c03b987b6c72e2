"""Builders of ops that read at the places in index tensors, as embedding and gather do, or backwards, as flip does.

Builders with index tensors give for each axis of the operand the dim of the result that walks it, or the index that
chooses its place: see `workbench.scheduling.passes.split_gathers`. The ranges of indices are checked before the launch,
so no kernel aborts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from torch_mlir import ir
from torch_mlir.dialects import tensor

from workbench.ir import Node, TensorType
from workbench.mlir.bindings import Value, shape_of
from workbench.operators.aten.registry import Registry
from workbench.scheduling.kernels.node_builder import NodeBuilder
from workbench.scheduling.passes.split_gathers import gather


def embedding(op: NodeBuilder) -> Value:
    """`embedding`: row `indices[...]` of the weight for each place of the result."""
    indices = op.tensor("indices")
    rank = len(shape_of(indices))
    return gather(op.tensor("weight"), [(indices, range(rank))], [-1, rank], op.type)


def index_select(op: NodeBuilder) -> Value:
    """Slices along one dim, in the order of the index."""
    table, index = op.tensor("self"), op.tensor("index")
    rank = len(shape_of(table))
    dim = op.integer("dim") % max(rank, 1)
    walk = [dim if rank else None] * len(shape_of(index))  # an operand without dims has one place
    return gather(table, [(index, walk)], [-1 if axis == dim else axis for axis in range(rank)], op.type)


def pick(op: NodeBuilder) -> Value:
    """`gather`: along one dim, the index chooses the place of each element of the result; along the others, its own."""
    table, index = op.tensor("self"), op.tensor("index")
    rank = len(shape_of(index))
    dim = op.integer("dim") % max(rank, 1)
    axes = [-1 if axis == dim else axis for axis in range(len(shape_of(table)))]
    return gather(table, [(index, range(rank))], axes, op.type)


def index_tensors(op: NodeBuilder) -> Value:
    """`x[i, :, j]`: index tensors are broadcast and choose one place together; dims without an index are kept whole."""
    table, given = op.tensor("self"), op["indices"]
    assert isinstance(given, tuple)
    indices = [(axis, each) for axis, each in enumerate(given) if isinstance(each, ir.Value)]
    chosen = [axis for axis, _ in indices]
    together = max(len(shape_of(each)) for _, each in indices)
    rank = len(shape_of(table))
    apart = chosen != list(range(chosen[0], chosen[0] + len(chosen)))
    first = 0 if apart else chosen[0]  # first dim of the indices in the result
    axes: list[int] = []
    for axis in range(rank):
        before = sum(other not in chosen for other in range(axis))
        axes.append(-1 - chosen.index(axis) if axis in chosen else before + (together if before >= first else 0))
    walks = [(each, _aligned(each, first, together, op)) for _, each in indices]
    return gather(table, walks, axes, op.type, wraps=True)


def _aligned(index: Value, first: int, together: int, op: NodeBuilder) -> list[int | None]:
    """The dims of the result that an index tensor walks: aligned at their ends, None where it is broadcast."""
    shape = shape_of(index)
    dims = range(first + together - len(shape), first + together)
    wanted = op.result_types[0].shape
    return [dim if extent == wanted[dim] else None for dim, extent in zip(dims, shape, strict=True)]


def flip(op: NodeBuilder) -> Value:
    """A slice that steps backwards: negative strides, so the copy engine does all the work."""
    shape = op.result_types[0].shape
    turned = {dim % len(shape) for dim in cast("tuple[int, ...]", op["dims"])}
    starts = [extent - 1 if axis in turned else 0 for axis, extent in enumerate(shape)]
    steps = [-1 if axis in turned else 1 for axis in range(len(shape))]
    return tensor.ExtractSliceOp(op.type, op.operands[0], [], [], [], starts, list(shape), steps).result


def chosen_by_numbers(node: Node, types: Mapping[str, TensorType]) -> bool:
    """True if the indices are whole numbers and the operand has dims.

    The data decides how many elements a mask chooses, so its result has no fixed shape for a kernel. An operand without
    dims has no dim to choose along: it is first made a row of one.
    """
    first, *indices = node.operands
    return (
        bool(types[first].shape)
        and all(types[value].dtype in ("i64", "i32") for value in indices)
        and (first not in indices)
    )


def register(registry: Registry) -> None:
    """Registers the builders of this file."""
    for overload, builder in (
        ("aten.embedding.default", embedding),
        ("aten.index_select.default", index_select),
        ("aten.gather.default", pick),
        ("aten.index.Tensor", index_tensors),
    ):
        registry.builder(overload, dialect="linalg", kind="gather", takes=chosen_by_numbers)(builder)
    registry.builder("aten.flip.default", dialect="tensor", kind="opaque")(flip)
