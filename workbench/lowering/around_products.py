"""Ops that may share a kernel with a matrix product, or with several products of one operand: pointwise ops on the
operands' tiles and on the result's, and reductions of the result's rows.

A product reads an operand once for every tile of the other operand, and fused ops that make the operand run as often.
Within bounds that costs less than the trip through DRAM. The bounds are rules on shapes: lowering knows no tiles.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from workbench.ir import Literal, Node, Sequence, TensorType
from workbench.lowering.fusion_candidate import Candidate, reduced_dims, shapes_of
from workbench.lowering.reduction_space import reduction_space
from workbench.lowering.shared_operands import ONE_PRODUCT, factors, side_by_side

PROLOGUE: Final = "product prologue"
"""The rule that fuses the ops that make a product's operand into the product's kernel."""

OF_WINDOWS: Final = (
    "windows overlap, and their borders are filled as they are loaded: a convolution reads its images from memory, "
    "unless its window is one point, without padding"
)

IN_GROUPS: Final = (
    "a convolution in groups, or of one channel, has tiles so small that their passes take longer than loads"
)

ONLY_POINTWISE: Final = (
    "only pointwise ops run on the tiles that a product reads, and the kernel that makes them has other ops as well"
)

BOTH_SIDES: Final = "it is read on both sides of a product, or after it as well, in tiles that differ"

ROWS_ONLY: Final = "a product's result tile holds whole rows, and this reduces other dims"

ROWS_OF_SEVERAL: Final = "whole rows of several products' results leave too little of the scratchpad for their operands"

TILE: Final = 256
"""The assumed extent of a tile along the other operand's free dim."""

MOST_OPERATIONS: Final = 16
"""The most operations on an element of an operand: a vector unit does so many while an array works on such a tile."""

LONGEST: Final = 4096
"""The longest free dim of the other operand: beyond it, the trip through DRAM is a small part of the product's work."""


def next_to_product(group: Candidate) -> str:
    """Like `around_product` for two nodes, one of them a product. It does not check the cost of recomputing an operand,
    which depends on the other nodes."""
    return around_product(group, whole=False)


def around_product(group: Candidate, *, whole: bool = True) -> str:
    """The reason why a product cannot share a kernel with these nodes, empty if it can."""
    products = group.of("contraction")
    if refused := side_by_side(products, group.types, group.room, meet=_meet(group, products)):
        return refused
    before = {product.name: _before(group, product) for product in products}
    made_before = {name for names in before.values() for name in names}
    after = tuple(node for node in group.nodes if node not in products and node.name not in made_before)
    if made_before.intersection(product.name for product in products):
        return ONE_PRODUCT
    refusals = (_prologue(group, each, before[each.name], after, whole) for each in products if before[each.name])
    if refused := next(filter(None, refusals), ""):
        return refused
    if not group.of("reduction"):
        return _epilogue(group, products[0], after)
    return _rows(group, products[0], after) if len(products) == 1 else ROWS_OF_SEVERAL


def _meet(group: Candidate, products: tuple[Node, ...]) -> bool:
    """True if an op depends on several products."""
    behind: dict[str, set[str]] = {value: {node.name} for node in products for value in node.results}
    for node in group.nodes:
        found = set[str]().union(*(behind.get(value, set()) for value in node.operands))
        if len(found) > 1:
            return True
        behind |= {value: found for value in node.results if value not in behind}
    return False


def _before(group: Candidate, product: Node) -> dict[str, int]:
    """The nodes that make the product's operands, each with the operand's position; -1 for nodes of both."""
    maker = {value: node for node in group.nodes for value in node.results}
    found: dict[str, int] = {}
    for place, operand in enumerate(factors(product)):
        ahead = [operand]
        while ahead:
            node = maker.get(ahead.pop())
            if node is not None and found.get(node.name) not in (place, -1):
                found[node.name] = -1 if node.name in found else place
                ahead += node.operands
    return found


def makes_operand(group: Candidate, node: Node) -> bool:
    """True if an operand of a product of the group depends on the node."""
    return any(node.name in _before(group, product) for product in group.of("contraction"))


def _prologue(group: Candidate, product: Node, before: dict[str, int], after: tuple[Node, ...], whole: bool) -> str:
    """The reason why the nodes that make the product's operands cannot be fused, empty if they can: they must be
    pointwise ops over the operand's shape whose results nothing else reads."""
    if product.op == "aten.convolution.default" and (refused := _before_windows(group, product, {*before.values()})):
        return refused
    read_after = {value for node in after for value in node.operands}
    pointwise = {node.name for node in group.of("pointwise")}
    nodes = [node for node in group.nodes if node.name in before]
    for node in nodes:
        if before[node.name] < 0 or read_after.intersection(node.results):
            return BOTH_SIDES
        if node.name not in pointwise:
            return ONLY_POINTWISE
        operand = group.types[factors(product)[before[node.name]]].shape
        if group.shape(node) != operand:
            return f"{shapes_of([group.shape(node)])} is not the operand's shape {shapes_of([operand])}"
    places = set(before.values()) if whole else set[int]()
    sides = {place: [node for node in nodes if before[node.name] == place] for place in places}
    found = (_too_often(group, product, place, chain) for place, chain in sides.items())
    return next(filter(None, found), "")


def _too_often(group: Candidate, product: Node, place: int, chain: list[Node]) -> str:
    """The reason if making an operand again for every tile of the other one costs more than its trip through DRAM."""
    operand = group.types[factors(product)[place]]
    other = free_extent(group.types[factors(product)[1 - place]], 1 - place, product.op)
    made = {value for node in chain for value in node.results}
    read = {value for node in chain for value in node.operands} - made
    taken = sum(group.types[value].element_bytes for value in read if group.types[value].shape == operand.shape)
    return too_often(other, len(chain), taken, operand.element_bytes)


def _before_windows(group: Candidate, product: Node, places: set[int]) -> str:
    """The reason why a convolution must read these operands from memory, empty if it need not: one whose window is one
    point is a product of matrices."""
    _, channels, *window = group.types[factors(product)[1]].shape
    padding, groups = product.args[4], product.args[8]
    point = set(window) == {1}
    if groups != Literal("int", 1) or (channels == 1 and not point):
        return IN_GROUPS
    unpadded = isinstance(padding, Sequence) and all(item == Literal("int", 0) for item in padding.items)
    return OF_WINDOWS if places != {1} and not (point and unpadded) else ""


def free_extent(operand: TensorType, place: int, op: str) -> int:
    """The extent of an operand's free dim: the one that is not summed over."""
    if op != "aten.convolution.default":
        return operand.shape[-1 if place else -2]
    return operand.shape[0] if place else operand.numel // operand.shape[1]


def too_often(other: int, operations: int, taken: int, left: int) -> str:
    """The reason as in `_too_often`, for an operand each of whose elements is made of `taken` bytes by `operations`
    operations and has `left` bytes.

    `other` is the extent of the other operand's free dim.
    """
    times = -(-other // TILE)
    if other > LONGEST:
        return f"it would be computed again for each tile of the other operand's {other:,}, more than {LONGEST:,}"
    if times * (taken - left) > taken + left:
        return (
            f"each element is made of {taken} bytes and has {left}: read anew for each of some {times} tiles of the "
            "other operand, that is more than is saved by not storing it"
        )
    if times > 1 and operations > MOST_OPERATIONS:
        return (
            f"{operations} operations on each element, for each of some {times} tiles of the other operand, would take "
            "longer than the product"
        )
    return ""


def _epilogue(group: Candidate, product: Node, after: tuple[Node, ...]) -> str:
    """The reason why these ops cannot follow the product, empty if they can: they must have exactly its shape."""
    shapes = {group.shape(node) for node in after} - {group.shape(product)}
    if shapes:
        return f"{shapes_of(shapes)} is not the product's shape {shapes_of([group.shape(product)])}"
    return ""


def _rows(group: Candidate, product: Node, after: tuple[Node, ...]) -> str:
    """The reason why reductions after the product cannot be fused, empty if they can: they must reduce its rows, and
    whole rows must fit."""
    if product.op == "aten.convolution.default":
        return "a convolution's result tile holds parts of images"
    shape = group.shape(product)
    for node in group.of("reduction"):
        dims = reduced_dims(node, len(group.operand_shape(node)))
        if group.operand_shape(node) != shape or dims != (len(shape) - 1,):
            return ROWS_ONLY
    rest = Candidate((product, *after), group.types, group.classes, group.room)
    if refused := reduction_space(rest):
        return refused
    if not _flows(rest, product):
        return "the reduction is of another tensor than the product's result"
    left = group.types[factors(product)[0]]
    row = _row_bytes(rest, product, after)
    return group.room.refuses_rows(shape[-2], shape[-1], left.shape[-1], row, left.element_bytes)


def _flows(group: Candidate, product: Node) -> bool:
    """True if all reductions depend on the product."""
    known = {*product.results}
    for node in group.nodes:
        if known.intersection(node.operands):
            known.update(node.results)
    return all(known.issuperset(node.results) for node in group.of("reduction"))


def _row_bytes(group: Candidate, product: Node, after: tuple[Node, ...]) -> int:
    """The bytes of all rows that are in the scratchpad at once. Values with one reader do not count: MLIR fuses them
    into the reader."""
    shape = group.shape(product)
    readers = Counter(value for node in after for value in {*node.operands})
    fused = {value for node in after for value in node.results if readers[value] == 1}
    values = {*readers, *product.results, *(value for node in after for value in node.results)} - fused
    return shape[-1] * sum(kind.element_bytes for kind in map(group.types.__getitem__, values) if kind.shape == shape)
