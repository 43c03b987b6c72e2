"""Pointwise ops moved behind a view, to the product that reads it, and equal views of one tensor as one.

A linear layer reads its weight transposed, and a batch of sequences as one matrix: both are views, and no kernel holds
a view. A conversion of the weight, or an activation before the layer, is the same on the view of what it reads. It is
moved there if the product's kernel may take it in. Nothing else reads it, and its tensors have the shape of its result,
or before a transpose also extents of one, as the scale of each row of int8 weights has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from workbench.ir import BREAK, LoweredNode, Node, TensorType
from workbench.ir.value_names import marked_name
from workbench.lowering.around_products import free_extent, too_often
from workbench.lowering.attention_operands import axes_of
from workbench.lowering.product_room import Room
from workbench.lowering.reshapes import contiguous
from workbench.lowering.shared_operands import factors, read_again
from workbench.operators.aten.automatic_route import class_of
from workbench.operators.formulas.decompose import reading

RULE = "moved before a pointwise op"

_RESHAPES = ("aten.view.default", "aten._unsafe_view.default")
_TURNS = ("aten.permute.default", "aten.t.default", "aten.transpose.int")


@dataclass(frozen=True)
class _Use:
    """An operand of a product, and the pointwise ops between it and the product."""

    other: int
    """The extent along which the other operand's tiles follow each other."""
    operations: int = 0


def through_one_view(items: Iterable[LoweredNode], products: Collection[str]) -> list[LoweredNode]:
    """The nodes with `products` that read the first of several equal views: each linear layer makes one of its own."""
    known: dict[object, str] = {}
    equal: dict[str, str] = {}
    found: list[LoweredNode] = []
    for item in items:
        if item.node.op == BREAK:  # the graph behind it runs by itself, without the views of the one before
            known.clear()
            equal.clear()
        node = reading(item.node, equal) if item.node.name in products else item.node
        if item.route == "view" and len(node.results) == 1:
            same = known.setdefault((node.op, node.args, *sorted(node.kwargs.items())), node.results[0])
            equal |= {node.results[0]: same} if same != node.results[0] else {}
        found.append(replace(item, node=node))
    return found


def below_views(
    items: list[LoweredNode], types: dict[str, TensorType], kept: Collection[str], products: Collection[str], room: Room
) -> list[LoweredNode]:
    """The nodes with pointwise ones moved; `types` gains the types of the values this makes.

    `kept` are values that must exist in memory, `products` the names of nodes that are matrix products.
    """
    found = [item.node for item in items if item.node.name in products]
    again = read_again(found, types, room)
    uses = dict(_uses(found, types))
    while (moved := _step(items, types, kept, uses, again)) is not None:
        items = moved
    return items


def _uses(products: Iterable[Node], types: dict[str, TensorType]) -> Iterable[tuple[str, _Use]]:
    """The operands of products, but for a value that is both of one."""
    for product in products:
        if product.op == "aten.convolution.default":
            continue
        left, right = factors(product)[:2]
        if left != right:
            yield left, _Use(free_extent(types[right], 1, product.op))
            yield right, _Use(free_extent(types[left], 0, product.op))


def _step(
    items: list[LoweredNode],
    types: dict[str, TensorType],
    kept: Collection[str],
    uses: dict[str, _Use],
    again: Mapping[str, str],
) -> list[LoweredNode] | None:
    """The nodes with one more of them moved, None when none can be. A product that reads an operand `again` may be one
    kernel with the first that does."""
    readers = _readers(items, again)
    makers = {value: place for place, item in enumerate(items) for value in item.node.results}
    for place in range(len(items) - 1, -1, -1):
        view = items[place]
        value = view.node.results[0] if view.node.results else ""
        if view.route != "view" or value not in uses or readers[value] != 1 or value in kept:
            continue
        at = makers.get(view.node.operands[0])
        if at is None or not _movable(items[at], view, types, uses[value]):
            continue
        source = items[at].node.results[0]
        if readers[source] == 1 and source not in kept:
            return [*items[:at], *items[at + 1 : place], *_moved(items[at], view, types, uses), *items[place + 1 :]]
    return None


def _readers(items: Iterable[LoweredNode], again: Mapping[str, str]) -> Counter[str]:
    """Counts the nodes that read each value, but for products that read it again."""
    return Counter(value for item in items for value in item.node.operands if value != again.get(item.node.name))


def _movable(item: LoweredNode, view: LoweredNode, types: dict[str, TensorType], use: _Use) -> bool:
    """True if a node may follow the view instead, and the product's kernel would take it in."""
    node = item.node
    if item.route != "automatic" or class_of(node.op) != "pointwise" or view.node.op not in (*_RESHAPES, *_TURNS):
        return False
    result = types[node.results[0]]
    operands = [types[each] for each in node.operands]
    whole = [each for each in operands if each.shape == result.shape]
    along = view.node.op in _TURNS  # a reshape would merge an extent of one with others
    if not all(each.shape in ((), result.shape) or (along and _broadcast(each, result)) for each in operands):
        return False
    if view.node.op in _RESHAPES and not all(map(contiguous, whole)):
        return False
    taken = sum(kind.element_bytes for kind in whole)
    return not too_often(use.other, use.operations + 1, taken, result.element_bytes)


def _seen(view: Node, kind: TensorType, shape: tuple[int, ...], result: TensorType) -> tuple[int, ...]:
    """The shape in which a view shows an operand of a node whose result has a shape, and is shown as `result`."""
    if kind.shape == shape:
        return result.shape
    return tuple(kind.shape[axis] for axis in axes_of(view, len(shape)))


def _broadcast(kind: TensorType, result: TensorType) -> bool:
    """True if a tensor has the extents of a result, or one in their place."""
    pairs = zip(kind.shape, result.shape, strict=False)
    return len(kind.shape) == len(result.shape) and all(mine in (1, whole) for mine, whole in pairs)


def _moved(
    item: LoweredNode, view: LoweredNode, types: dict[str, TensorType], uses: dict[str, _Use]
) -> list[LoweredNode]:
    """The node behind views of what it reads."""
    node, (value,) = item.node, view.node.results
    shape, names, made = types[node.results[0]].shape, dict[str, str](), list[LoweredNode]()
    use = uses.pop(value)
    for operand in dict.fromkeys(node.operands):
        if types[operand].shape == ():
            continue
        name = names[operand] = marked_name(f"{value}.{operand}", types)
        types[name] = TensorType.dense(_seen(view.node, types[operand], shape, types[value]), types[operand].dtype)
        turned = replace(reading(view.node, {view.node.operands[0]: operand}), name=name, results=(name,))
        made.append(LoweredNode(turned, "view", "", RULE, view.parent))
        uses[name] = _Use(use.other, use.operations + 1)
    types[value] = TensorType.dense(types[value].shape, types[value].dtype)
    return [*made, replace(item, node=replace(reading(node, names), results=(value,)))]
