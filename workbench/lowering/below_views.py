"""Moves pointwise ops behind a view, to the product that reads the view, and merges equal views of one tensor.

A linear layer reads its weight transposed, and a batch of sequences as one matrix: both are views, and no kernel holds
a view. A pointwise op before the view, such as a conversion of the weight or an activation before the layer, gives the
same numbers when it works on views of its operands. So it is moved behind the view if the product's kernel may take it
in. Nothing else may read the op, and its operands must have the shape of its result or, before a transpose, extents of
one instead, as the scale of each row of int8 weights has.
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
    """The use of a value as a product's operand, perhaps through pointwise ops."""

    other: int
    """The extent of the other operand's free dim."""
    operations: int = 0
    """The number of pointwise ops between the value and the product."""


def through_one_view(items: Iterable[LoweredNode], products: Collection[str]) -> list[LoweredNode]:
    """The nodes, with `products` that read the first of several equal views: each linear layer makes its own view."""
    known: dict[object, str] = {}
    equal: dict[str, str] = {}
    found: list[LoweredNode] = []
    for item in items:
        if item.node.op == BREAK:  # the graph after a break runs separately, without earlier views
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
    """The nodes, with pointwise ones moved behind views; `types` gains the types of new values.

    `kept` are values that must exist in memory, `products` the names of nodes that are matrix products.
    """
    found = [item.node for item in items if item.node.name in products]
    again = read_again(found, types, room)
    uses = dict(_uses(found, types))
    while (moved := _step(items, types, kept, uses, again)) is not None:
        items = moved
    return items


def _uses(products: Iterable[Node], types: dict[str, TensorType]) -> Iterable[tuple[str, _Use]]:
    """The operands of products with their uses, without a value that is both operands of one product."""
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
    """The nodes with one more of them moved, None if none can be. `again` has products that may share a kernel with an
    earlier product of one operand, and this operand."""
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
    """The number of nodes that read each value, without products that read it `again`."""
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
    """The shape of an operand, of type `kind`, behind the view that shows a result of `shape` as `result`."""
    if kind.shape == shape:
        return result.shape
    return tuple(kind.shape[axis] for axis in axes_of(view, len(shape)))


def _broadcast(kind: TensorType, result: TensorType) -> bool:
    """True if each extent of a tensor is the result's extent or one."""
    pairs = zip(kind.shape, result.shape, strict=False)
    return len(kind.shape) == len(result.shape) and all(mine in (1, whole) for mine, whole in pairs)


def _moved(
    item: LoweredNode, view: LoweredNode, types: dict[str, TensorType], uses: dict[str, _Use]
) -> list[LoweredNode]:
    """The node moved behind the view, after new views of its operands."""
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
