"""The ops that choose elements of a tensor by indices. This module works without PyTorch, for loaded journeys."""

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
"""Ops whose argument `index` chooses along the dim `dim` of `self`."""

FROM_THE_END = {"aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor"}
"""The ops of `ALONG_DIM` for which PyTorch accepts negative indices."""

BY_POSITION = {
    "aten.index.Tensor",
    "aten._unsafe_index.Tensor",
    "aten.index_put.default",
    "aten._unsafe_index_put.default",
}
"""Ops whose list `indices` has an index tensor, or None, for each of the first dims of `self`; indices may be negative.
"""


_READS = {
    EMBEDDING,
    "aten.index_select.default",
    "aten.gather.default",
    "aten.index.Tensor",
    "aten._unsafe_index.Tensor",
}
"""The ops that read the chosen elements; all others write them."""


def looked_into(node: Node) -> Iterator[str]:
    """The tensors of a node whose elements indices choose: its first argument, and its results if it writes."""
    if node.op == EMBEDDING or node.op in ALONG_DIM or node.op in BY_POSITION:
        if isinstance(node.args[0], Ref):
            yield node.args[0].value
        if node.op not in _READS:
            yield from node.results
