"""A set of nodes that might become one kernel, and the properties that the fusion rules need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from workbench.ir import Literal, Node, Sequence, TensorType
from workbench.lowering.product_room import Room
from workbench.operators.aten.automatic_route import class_of

Shape = tuple[int, ...]
Classes = Mapping[str, str]
"""Node name -> class, for the nodes whose overload does not determine it."""

NO_CLASSES: Classes = MappingProxyType({})


@dataclass(frozen=True)
class Candidate:
    """A set of nodes that might become one kernel."""

    nodes: tuple[Node, ...]
    types: Mapping[str, TensorType]
    classes: Classes
    room: Room

    def of(self, kind: str) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node_class(node, self.classes) == kind)

    def shape(self, node: Node) -> Shape:
        return self.types[node.results[0]].shape

    def operand_shape(self, node: Node) -> Shape:
        return self.types[node.operands[0]].shape


def node_class(node: Node, classes: Classes = NO_CLASSES) -> str:
    """The class of a node: pointwise, gather, reduction, contraction, window, tile, creation or opaque. A copy is
    pointwise."""
    found = classes.get(node.name) or class_of(node.op) or "opaque"
    return "pointwise" if found == "copy" else found


def reduced_dims(node: Node, rank: int) -> tuple[int, ...]:
    """The dims that a reduction reduces, sorted and counted from the front: its second argument, or all if left out."""
    given = node.args[1] if len(node.args) > 1 else Literal("none", None)
    items = given.items if isinstance(given, Sequence) else (given,) if given != Literal("none", None) else ()
    dims = [item.value for item in items if isinstance(item, Literal)]
    return tuple(sorted(int(dim or 0) % max(rank, 1) for dim in dims)) if dims else tuple(range(rank))


def shapes_of(shapes: Iterable[Shape]) -> str:
    return " and ".join("x".join(map(str, shape)) or "a single number" for shape in sorted(shapes))


def spaces_of(spaces: Iterable[tuple[Shape, tuple[int, ...]]]) -> str:
    return " and ".join(f"dims {list(dims)} of {shapes_of([shape])}" for shape, dims in sorted(spaces))
