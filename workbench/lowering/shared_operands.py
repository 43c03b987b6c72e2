"""Matrix products that read one operand, such as the projections of an attention layer, and may become one kernel.

The kernel loads each tile of that operand once for all products. Weights stay separate tensors, each with its own
result. Concatenated, they would be one wider product, but parameters would be copied on every run, since a user may
change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from workbench.ir import Node, Ref, TensorType
from workbench.lowering.fusion_candidate import shapes_of
from workbench.lowering.product_room import Room

ONE_PRODUCT: Final = (
    "a second product needs whole rows of the first one's result: they would be computed again for every column tile, "
    "or a whole panel of them stay in the scratchpad, which the schedule does not do yet"
)

WINDOWS: Final = "a convolution reads windows of its own"


def factors(product: Node) -> list[str]:
    """The values that a product multiplies; it may be one value twice."""
    return [given.value for given in product.args if isinstance(given, Ref)]


def shared_operand(*products: Node) -> str:
    """The operand that all of these products read on the same side, empty if there is none."""
    sides = zip(*(factors(each)[:2] for each in products), strict=True)
    return next((side[0] for side in sides if len({*side}) == 1), "")


def side_by_side(products: Sequence[Node], types: Mapping[str, TensorType], room: Room, *, meet: bool) -> str:
    """The reason why these products cannot be one kernel, empty if they can; one product always can. `meet` is True if
    their results meet in a later op."""
    first, *others = products
    if not (same := shared_operand(*products)):
        return ONE_PRODUCT
    for each in others:
        if refused := _unlike(first, each, types):
            return refused
    if not others:
        return ""
    left, right = factors(first)[:2]
    other, depth = right if left == same else left, types[left].shape[-1]
    return room.refuses_products(len(products), types[same], types[other], types[first.results[0]], depth, meet=meet)


def _unlike(first: Node, other: Node, types: Mapping[str, TensorType]) -> str:
    if "aten.convolution.default" in (first.op, other.op):
        return WINDOWS
    values = zip((*first.results, *factors(first)), (*other.results, *factors(other)), strict=True)
    for kinds in ((types[one], types[another]) for one, another in values):
        if len({kind.shape for kind in kinds}) > 1:
            return f"{shapes_of(kind.shape for kind in kinds)} differ, and products of one kernel have one shape"
        if len({kind.dtype for kind in kinds}) > 1:
            return f"{kinds[0]} and {kinds[1]} differ, and products of one kernel have one element type"
    return "" if first.op == other.op else f"{first.op} and {other.op} differ"


def siblings(products: Iterable[Node], types: Mapping[str, TensorType]) -> list[tuple[str, str]]:
    """Pairs of products of one operand, by name: each product but the first is paired with the first one that has the
    same shapes and types, or else with the first."""
    known: dict[tuple[int, str], list[Node]] = {}
    found: list[tuple[str, str]] = []
    for node in products:
        keys = [*enumerate(factors(node)[:2])]
        before = next((known[key] for key in keys if key in known), list[Node]())
        if before:
            alike = next((each for each in before if not _unlike(each, node, types)), before[0])
            found.append((alike.name, node.name))
        for key in keys:
            known.setdefault(key, []).append(node)
    return found


def read_again(products: Sequence[Node], types: Mapping[str, TensorType], room: Room) -> dict[str, str]:
    """Product -> the operand that it shares with an earlier product, if both may be one kernel."""
    named = {node.name: node for node in products}
    pairs = ((named[first], named[other]) for first, other in siblings(products, types))
    return {
        other.name: shared_operand(first, other)
        for first, other in pairs
        if not side_by_side((first, other), types, room, meet=False)
    }
