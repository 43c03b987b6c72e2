"""The input of a user's that indices come from, for a message: what an op makes of it has a name that nobody gave."""

from __future__ import annotations

from typing import Final

from workbench.ir.graph import Input
from workbench.ir.kernels import Bound, KernelGraph

_COPIES: Final = ("aten.clone.default", "aten._to_copy.default", "aten.alias.default")


def input_behind(lowered: KernelGraph, bound: Bound) -> Input | None:
    """The only input that the indices are made of, by views, copies, and what the op that indexes does before."""
    inputs = {item.value: item for item in lowered.captured.inputs}
    maker = {value: item for item in lowered.nodes for value in item.node.results}
    todo, seen = [bound.value], set[str]()
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        if value not in inputs:
            made = maker.get(value)
            if made is None or not (
                made.route == "view" or made.node.op in _COPIES or made.node.origin.node == bound.node
            ):
                return None
            todo += made.node.operands
    found = [item for value, item in inputs.items() if value in seen]
    return found[0] if len(found) == 1 else None
