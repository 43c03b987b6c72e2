"""Edges between kernels through views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.ir import Fusion, LoweredNode


def across_views(items: Sequence[LoweredNode]) -> list[Fusion]:
    """Edges that a view stands on: never fused, since MLIR would fold a reshape into the loop nest."""
    maker = {value: item for item in items for value in item.node.results}
    found: list[Fusion] = []
    for item in items:
        for value in item.node.operands if item.route != "view" else ():
            reason = f"{value} reads the result with other strides: kernels are not fused across a view"
            for producer in behind(value, maker):
                found.append(Fusion(producer, item.node.name, False, "never across a view", reason))
    return found


def behind(value: str, maker: Mapping[str, LoweredNode]) -> tuple[str, ...]:
    """The nodes that compute what a view shows, several for one that is put together; none for any other value."""
    names: dict[str, None] = {}
    ahead = [value] if value in maker and maker[value].route == "view" else []
    while ahead:
        item = maker.get(ahead.pop(0))
        if item is not None and item.route == "view":
            ahead += item.node.operands
        elif item is not None:
            names[item.node.name] = None
    return tuple(names)
