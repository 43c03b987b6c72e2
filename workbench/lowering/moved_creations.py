"""Moves creation ops, such as `arange` and `full`, to their readers.

An element of a creation op follows from its index, so computing it costs less than loading it. Every reader that
computes element by element gets its own creation op, in the shape that it reads, in the same kernel. Other readers,
such as a matrix product or a result, read the tensor from memory; it is made once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from workbench.ir import LoweredNode, TensorType
from workbench.ir.value_names import marked_name
from workbench.operators.aten.automatic_route import class_of
from workbench.operators.formulas.decompose import reading

RULE = "computed where it is read"

Creation = tuple[LoweredNode, tuple[int, ...]]
"""A creation op, and a shape in which its result is read."""


def at_their_readers(
    items: list[LoweredNode], types: dict[str, TensorType], kind_of: Callable[[LoweredNode], str]
) -> list[LoweredNode]:
    """The nodes, with a creation op before each reader that can have its own; `types` gains the types of new values."""
    known: dict[str, Creation] = {}
    found: list[LoweredNode] = []
    for item in items:
        node = item.node
        if kind_of(item) == "creation":
            known[node.results[0]] = item, types[node.results[0]].shape
        elif item.route == "view" and class_of(node.op) == "view" and len(node.results) == 1:
            source, shape = known.get(node.operands[0]), types[node.results[0]].shape
            if source is not None and _has_shape(source, shape, types):
                known[node.results[0]] = source[0], shape
        elif item.route != "view" and kind_of(item) in ("pointwise", "reduction"):  # ops with empty results are views
            own = {value: _made(known[value], item, types, found) for value in node.operands if value in known}
            item = replace(item, node=reading(node, own))
        found.append(item)
    return found


def _has_shape(source: Creation, shape: tuple[int, ...], types: Mapping[str, TensorType]) -> bool:
    """True if the creation op can make a view's shape directly: `full` always, others if only extents of one differ."""
    node = source[0].node
    whole = types[node.results[0]].shape
    return node.op == _EVERYWHERE or (node.op in _ALONG_A_DIM and [*_wide(shape)] == [*_wide(whole)])


def _wide(shape: tuple[int, ...]) -> Iterator[int]:
    return (extent for extent in shape if extent != 1)


_EVERYWHERE = "aten.full.default"

_ALONG_A_DIM = ("aten.arange.default", "aten.arange.start", "aten.arange.start_step")


def _made(source: Creation, reader: LoweredNode, types: dict[str, TensorType], found: list[LoweredNode]) -> str:
    item, shape = source
    name = marked_name(f"{reader.node.name}.{item.node.name}", types)
    types[name] = TensorType.dense(shape, types[item.node.results[0]].dtype)
    found.append(replace(item, node=replace(item.node, name=name, results=(name,)), rule=item.rule or RULE))
    return name
