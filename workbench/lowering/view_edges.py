"""Decisions for edges between kernels that pass through a view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.ir import Fusion, LoweredNode, Node, TensorType
from workbench.lowering.around_products import ONLY_POINTWISE
from workbench.lowering.fusion_candidate import node_class
from workbench.lowering.fusion_rules import ACROSS_VIEWS, rule_for
from workbench.lowering.grouping import Grouping
from workbench.lowering.reshapes import contiguous
from workbench.lowering.shared_operands import ONE_PRODUCT
from workbench.operators.formulas.decompose import reading


def across_views(items: Sequence[LoweredNode], grouping: Grouping) -> list[Fusion]:
    """Decisions for edges through views: never fused, since MLIR would fold a reshape into the loop nest.

    If the two would not be fused without the view either, the decision has that reason and its rule instead.
    """
    maker = {value: item for item in items for value in item.node.results}
    found: list[Fusion] = []
    for item in items:
        for value in item.node.operands if item.route != "view" else ():
            for producer in behind(value, maker):
                found.append(_edge(producer, item.node, value, grouping))
    return found


def _edge(producer: LoweredNode, consumer: Node, value: str, grouping: Grouping) -> Fusion:
    types, (result, *more) = grouping.types, producer.node.results
    rule, reason = ACROSS_VIEWS, ""
    ends = [node.name in grouping.group_of for node in (producer.node, consumer)]
    if all(ends) and not more and _in_order(types[result], types[value]):
        reason = _without_the_view(producer.node, consumer, value, grouping)
        rule = rule_for(producer.node, consumer, grouping.classes).name if reason else rule
    told = f"{value} {_shown(types[result], types[value])}: kernels are not fused across a view"
    return Fusion(producer.node.name, consumer.name, False, rule, reason or told)


def _in_order(made: TensorType, seen: TensorType) -> bool:
    """True if a view shows all elements of a value in their order."""
    return contiguous(made) and contiguous(seen) and made.numel == seen.numel and made.offset == seen.offset


def _shown(made: TensorType, seen: TensorType) -> str:
    if not _in_order(made, seen):
        return "reads the result with other strides"
    return "reads the result in another shape" if made.shape != seen.shape else "is a view of the result"


def _without_the_view(producer: Node, consumer: Node, value: str, grouping: Grouping) -> str:
    """The reason why the two would not share a kernel even without the view; empty if they would, or if that depends on
    the view's shape.
    """
    result, types = producer.results[0], grouping.types
    if types[result].shape == types[value].shape:
        return grouping.refused(producer, consumer, reading(consumer, {value: result}))
    if node_class(consumer, grouping.classes) != "contraction":
        return ""
    kinds = {node_class(node, grouping.classes) for node in grouping.members(grouping.group_of[producer.name])}
    if "contraction" in kinds:
        return ONE_PRODUCT
    return ONLY_POINTWISE if kinds - {"pointwise", "creation"} else ""


def behind(value: str, maker: Mapping[str, LoweredNode]) -> tuple[LoweredNode, ...]:
    """The nodes that compute the elements of a view, several for an assembled result; empty for any other value."""
    found: dict[str, LoweredNode] = {}
    ahead = [value] if value in maker and maker[value].route == "view" else []
    while ahead:
        item = maker.get(ahead.pop(0))
        if item is not None and item.route == "view":
            ahead += item.node.operands
        elif item is not None:
            found[item.node.name] = item
    return tuple(found.values())
