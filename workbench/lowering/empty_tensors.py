"""Tensors without elements: an op that makes an empty tensor has no work, and one that reads it is replaced.

A reduction over no elements gives its identity, a product over no columns zeros, a concatenation leaves out empty
parts, and writing nothing into a tensor gives a copy of the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from workbench.ground import errors
from workbench.ir import Arg, Literal, Node, Ref, Sequence, TensorType

NO_ELEMENTS = "no elements: there is nothing to compute and nothing to move"
"""The rule of a node whose results are all empty."""


def _names(overloads: str) -> tuple[str, ...]:
    return tuple(f"aten.{name}" for name in overloads.split())


def _table(value: float, overloads: str) -> dict[str, float]:
    return dict.fromkeys(_names(overloads), value)


IDENTITIES: Mapping[str, float] = {
    **_table(0, "sum.default sum.dim_IntList nansum.default linalg_vector_norm.default count_nonzero.dim_IntList"),
    **_table(0, "count_nonzero.default mm.default bmm.default dot.default mv.default _int_mm.default any.default"),
    **_table(0, "any.dim any.dims"),
    **_table(1, "prod.default prod.dim_int all.default all.dim all.dims"),
    **_table(math.nan, "mean.default mean.dim var.default var.dim var.correction std.default std.dim std.correction"),
    **_table(-math.inf, "logsumexp.default"),
}
"""The result of each op over no elements."""

_PADS = ("aten.pad.default", "aten.constant_pad_nd.default")

_WRITES = _names(
    """
    slice_scatter.default select_scatter.default as_strided_scatter.default index_put.default put.default scatter.src
    scatter.value scatter_add.default scatter.reduce index_add.default index_copy.default index_fill.int_Scalar
    masked_scatter.default
    """
)
"""Ops whose result is a copy of the first operand with something written into it."""

_EXTREMES = _names(
    """
    max.default min.default max.dim min.dim amax.default amin.default aminmax.default argmax.default argmin.default
    """
)


def makes_nothing(node: Node, types: Mapping[str, TensorType]) -> bool:
    """True if no result has an element."""
    return all(types[value].numel == 0 for value in node.results)


def without_empty(node: Node, types: Mapping[str, TensorType]) -> tuple[Node, ...] | None:
    """Replaces `node`, which reads an empty tensor, by nodes that read none; None if there is no rule for it."""
    result = types[node.results[0]]
    if node.op in _EXTREMES:
        given = ", ".join(f"{value} is {types[value]}" for value in node.operands)
        raise errors.EmptyReduction(
            f"{node.op} at {node.origin.place} takes a maximum or minimum of no elements ({given}): there is "
            "none, and PyTorch raises too. Give it a shape with elements, or handle the empty case before"
        )
    if node.op in IDENTITIES:
        return (_full(node, result, IDENTITIES[node.op]),)
    if node.op in _PADS:
        given = node.args[3] if node.op == "aten.pad.default" and len(node.args) > 3 else None
        given = node.args[2] if node.op == "aten.constant_pad_nd.default" and len(node.args) > 2 else given
        value = given.value if isinstance(given, Literal) else None
        return (_full(node, result, cast(float, value) if value is not None else 0),)
    if node.op == "aten.cat.default":
        return (_joined(node, types),)
    first = node.args[0]
    if node.op in _WRITES and isinstance(first, Ref) and types[first.value].numel:
        return (_copy(node, first),)
    return None


def _full(node: Node, result: TensorType, value: float) -> Node:
    exact = value if result.dtype[0] in "fbc" and result.dtype != "bool" else int(value)
    fill = Literal("float", exact) if isinstance(exact, float) else Literal("int", exact)
    shape = Sequence(tuple(Literal("int", extent) for extent in result.shape))
    kwargs: dict[str, Arg] = {"dtype": Literal("dtype", result.dtype), "device": Literal("device", "cpu")}
    return Node(node.name, "aten.full.default", (shape, fill), kwargs, node.results[:1], node.origin)


def _joined(node: Node, types: Mapping[str, TensorType]) -> Node:
    """The concatenation of the parts with elements; a copy if there is only one."""
    (parts, *rest) = node.args
    assert isinstance(parts, Sequence)
    left = tuple(part for part in parts.items if isinstance(part, Ref) and types[part.value].numel)
    if len(left) == 1 and types[left[0].value].dtype == types[node.results[0]].dtype:
        return _copy(node, left[0])
    return Node(node.name, node.op, (Sequence(left), *rest), node.kwargs, node.results, node.origin)


def _copy(node: Node, source: Ref) -> Node:
    return Node(node.name, "aten.clone.default", (source,), {}, node.results[:1], node.origin)
