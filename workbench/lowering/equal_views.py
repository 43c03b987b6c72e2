"""Equal views of one tensor: each linear layer makes one of its own, of the same input."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from workbench.ir import BREAK, LoweredNode
from workbench.operators.formulas.decompose import reading


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
