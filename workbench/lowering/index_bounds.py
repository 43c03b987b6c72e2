"""The index arguments of an op, and their bounds.

A kernel does not check indices. They are checked before each launch, and traced indices already when the graph is
lowered, so that a wrong index is an error at the user's line and never a read outside a tensor.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from workbench.ground.errors import IndexOutOfRange, IndexType
from workbench.ir import AtenGraph, Bound, Kernel, Node, Ref, Sequence, TensorType
from workbench.lowering.indexing_ops import ALONG_DIM, BY_POSITION, EMBEDDING, FROM_THE_END
from workbench.operators.aten.overload_schema import arguments, plain_arguments

_BAGS: Final = frozenset(
    f"aten.{name}"
    for name in ("embedding_bag.padding_idx", "_embedding_bag.default", "_embedding_bag_forward_only.default")
)


def bounds_before(node: Node, types: Mapping[str, TensorType], inputs: Container[str]) -> tuple[Bound, ...]:
    """The bounds of a captured node's indices if the nodes that it is decomposed into do not index by them."""
    if node.op in _BAGS:
        bound = _made(node, arguments(node)["offsets"], "offsets", 0, prod(_shape(node, types, "indices")) + 1)
        return (bound,) if bound.value in inputs else ()  # computed offsets come from `arange`
    if node.op != "aten.one_hot.default":
        return ()
    classes = plain_arguments(node)["num_classes"]
    assert isinstance(classes, int)
    return (_made(node, arguments(node)["self"], "classes", 0, classes),)


def bounds_of(node: Node, types: Mapping[str, TensorType]) -> Iterator[Bound]:
    """The bounds of a node's index arguments."""
    if node.op == EMBEDDING:
        yield from _bound(node, types, "indices", "weight", 0)
    elif node.op in ALONG_DIM:
        dim = plain_arguments(node)["dim"]
        assert isinstance(dim, int)
        yield from _bound(node, types, "index", "self", dim, below=node.op in FROM_THE_END)
    elif node.op in BY_POSITION:
        given = arguments(node)["indices"]
        assert isinstance(given, Sequence)
        for item, extent in zip(given.items, _shape(node, types, "self"), strict=False):
            if isinstance(item, Ref) and types[item.value].dtype in ("i64", "i32"):
                yield _made(node, item, "indices", -extent, extent)


def _bound(
    node: Node, types: Mapping[str, TensorType], argument: str, tensor: str, dim: int, *, below: bool = False
) -> Iterator[Bound]:
    extent = (_shape(node, types, tensor) or (1,))[dim]
    yield _made(node, arguments(node)[argument], argument, -extent if below else 0, extent)


def _shape(node: Node, types: Mapping[str, TensorType], tensor: str) -> tuple[int, ...]:
    given = arguments(node)[tensor]
    assert isinstance(given, Ref)
    return types[given.value].shape


def _made(node: Node, index: object, argument: str, low: int, high: int) -> Bound:
    assert isinstance(index, Ref)
    return Bound(index.value, low, high, node.origin.node, argument, node.origin.place)


_OF_64_BITS: Final = {
    **dict.fromkeys(("cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss_forward"), "target"),
    **dict.fromkeys(("nll_loss2d", "nll_loss2d_forward"), "target"),
    **dict.fromkeys(("multi_margin_loss", "multilabel_margin_loss", "multilabel_margin_loss_forward"), "target"),
    **dict.fromkeys(("index_fill", "index_copy"), "index"),
}
"""Arguments that must have 64 bits in PyTorch. Its fake tensors, without data, accept other types."""


def check_index_types(graph: AtenGraph) -> None:
    """Raises `IndexType` for labels and indices of a type that PyTorch refuses on real data."""
    paths = graph.paths
    for node in graph.nodes:
        argument = _OF_64_BITS.get(node.op.split(".")[1]) if node.op.startswith("aten.") else None
        index = arguments(node)[argument] if argument else None
        if argument and isinstance(index, Ref) and (dtype := graph.types[index.value].dtype) in ("i32", "i16", "i8"):
            raise IndexType(node.origin.node, node.origin.place, argument, paths.get(index.value, index.value), dtype)


def check_traced(
    graph: AtenGraph, kernels: tuple[Kernel, ...], bases: Mapping[str, str], types: Mapping[str, TensorType]
) -> None:
    """Raises `IndexOutOfRange` if a traced index is out of range."""
    known = {numbers.value: numbers for numbers in graph.numbers}
    paths = graph.paths
    for bound in (bound for kernel in kernels for bound in kernel.bounds):
        owner = bases.get(bound.value, bound.value)
        if owner not in known:
            continue
        kind, storage = types[bound.value], known[owner].array
        index = _elements(storage, kind, types[owner].offset)
        if index.size and not bound.low <= index.min() <= index.max() < bound.high:
            wrong = int(index.min() if index.min() < bound.low else index.max())
            raise IndexOutOfRange(bound, wrong, paths.get(owner, ""))


def _elements(storage: npt.NDArray[np.int64], kind: TensorType, base_offset: int) -> npt.NDArray[np.int64]:
    """The elements of a view, of type `kind`, of a tensor whose memory is `storage`."""
    place = np.full((), kind.offset - base_offset, np.int64)
    for extent, stride in zip(kind.shape, kind.strides, strict=True):
        place = place[..., None] + stride * np.arange(extent)
    return storage[place]
