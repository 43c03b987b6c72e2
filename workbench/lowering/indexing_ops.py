"""The ops that choose elements of a tensor by indices. Nothing here needs PyTorch: loaded journeys are read without."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.ir import Node, Ref

EMBEDDING = "aten.embedding.default"

ALONG_DIM = {
    "aten.index_select.default",
    "aten.gather.default",
    "aten.scatter.src",
    "aten.scatter.value",
    "aten.scatter.reduce",
    "aten.scatter.value_reduce",
    "aten.scatter_add.default",
    "aten.scatter_reduce.two",
    "aten.index_add.default",
    "aten.index_copy.default",
    "aten.index_fill.int_Scalar",
    "aten.index_fill.int_Tensor",
    "aten.index_reduce.default",
}
"""An argument `index` chooses along the dim `dim` of `self`."""

FROM_THE_END = {"aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor"}
"""Of these, PyTorch takes indices below zero."""

BY_POSITION = {
    "aten.index.Tensor",
    "aten._unsafe_index.Tensor",
    "aten.index_put.default",
    "aten._unsafe_index_put.default",
}
"""A list `indices` has an index tensor, or nothing, for each of the first dims of `self`; they may be below zero."""


_READS = {
    EMBEDDING,
    "aten.index_select.default",
    "aten.gather.default",
    "aten.index.Tensor",
    "aten._unsafe_index.Tensor",
}
"""Those that read elements; the others write them."""


def looked_into(node: Node) -> Iterator[str]:
    """The tensors of a node in which indices choose elements: its first argument, and its results if it writes."""
    if node.op == EMBEDDING or node.op in ALONG_DIM or node.op in BY_POSITION:
        if isinstance(node.args[0], Ref):
            yield node.args[0].value
        if node.op not in _READS:
            yield from node.results
