"""The makers and readers of the values of a captured graph, and the paths between values."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

import torch

from workbench.ir import Arg, AtenGraph, Literal, Node, Ref
from workbench.operators.aten.automatic_route import class_of
from workbench.operators.aten.overload_schema import arguments
from workbench.operators.tensors.element_types import to_dtype

_FARTHEST: Final = 16
"""The most nodes on a path."""

_SCALES: Final = {
    **dict.fromkeys(("aten.mul.Tensor", "aten.mul.Scalar", "aten.multiply.Tensor"), 1),
    **dict.fromkeys(("aten.div.Tensor", "aten.div.Scalar", "aten.divide.Tensor", "aten.true_divide.Tensor"), -1),
}
"""Ops that multiply by a number, with the number's exponent: 1 to multiply by it, -1 to divide."""

HIDING: Final = {
    "aten.masked_fill.Scalar": ("self", "mask", "value", True),
    "aten.masked_fill.Tensor": ("self", "mask", "value", True),
    "aten.where.self": ("self", "condition", "other", False),
    "aten.where.ScalarOther": ("self", "condition", "other", False),
    "aten.where.ScalarSelf": ("other", "condition", "self", True),
}
"""Ops that replace masked numbers: the names of the arguments with the tensor, the mask and the replacement, and True
if the mask is true for the replaced numbers."""

_SAME: Final = (
    *("aten.alias.default", "aten.clone.default", "aten.contiguous.default", "aten.detach.default"),
    *("aten._to_copy.default", "aten.to.dtype"),
)


class GraphValues:
    """The values of a graph."""

    def __init__(self, graph: AtenGraph) -> None:
        self.types = graph.types
        self.maker = {value: node for node in graph.nodes for value in node.results}
        self.readers: dict[str, list[Node]] = {}
        """The nodes that read each value; a node that reads it twice is listed twice."""
        for node in graph.nodes:
            for value in node.read:
                self.readers.setdefault(value, []).append(node)
        self.kept = {*graph.outputs, *(change.value for change in graph.mutations)}
        """Values that the function returns or stores."""

    def read_once(self, value: str) -> bool:
        """True if exactly one node reads a value, once, and the function does not return or store it."""
        return len(self.readers.get(value, ())) == 1 and value not in self.kept

    def number(self, arg: Arg | None) -> float | None:
        """The number that an argument is: a literal, or the fill of a tensor without dims, rounded to the tensor's
        type; None for any other argument."""
        maker = self.maker.get(arg.value) if isinstance(arg, Ref) else None
        kind = self.types[maker.results[0]] if maker is not None and maker.op == "aten.full.default" else None
        if maker is not None and kind is not None and kind.shape == ():
            arg = maker.args[1]
        if not isinstance(arg, Literal) or arg.kind not in ("int", "float"):
            return None
        number = float(arg.value or 0)
        return number if kind is None else _held(number, kind.dtype)

    def scale(self, node: Node) -> float | None:
        """The number by which a node multiplies its first operand; None if it does something else."""
        power = _SCALES.get(node.op)
        number = self.number(node.args[1]) if power else None
        if number is None or not math.isfinite(number) or (number == 0 and power == -1):
            return None
        return number if power == 1 else 1 / number

    def path(self, value: str, ends: Collection[str]) -> tuple[Node, ...]:
        """The nodes from a value's maker back to an op in `ends`, through pointwise ops, views and copies; empty if
        none is near."""
        return self._path(value, ends, _FARTHEST, set()) or ()

    def _path(self, value: str, ends: Collection[str], left: int, tried: set[str]) -> tuple[Node, ...] | None:
        node = self.maker.get(value)
        if node is None or not left or value in tried:
            return None
        tried.add(value)
        if node.op in ends:
            return (node,)
        if class_of(node.op) not in ("pointwise", "view", "copy") and node.op not in HIDING and not unchanged(node):
            return None
        ways = (self._path(operand, ends, left - 1, tried) for operand in node.operands)
        way = next(filter(None, ways), None)
        return way and (node, *way)


def _held(number: float, dtype: str) -> float | None:
    """A number converted to an element type; None if an integer type cannot hold it."""
    try:
        return float(torch.full((), number, dtype=to_dtype(dtype)).item())
    except (RuntimeError, OverflowError, ValueError):  # too large for it
        return None


def unchanged(node: Node) -> bool:
    """True if a node's result has the numbers of its operand, perhaps rounded."""
    if node.op == "aten.dropout.default":
        return arguments(node)["train"] == Literal("bool", False)
    return node.op in _SAME
