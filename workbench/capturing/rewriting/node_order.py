"""Nodes in an order in which each comes after those it reads."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.ir import Node


def in_order(nodes: Iterable[Node]) -> tuple[Node, ...] | None:
    """The nodes, each as early in the given order as what it reads allows; None where some wait for each other."""
    given = tuple(nodes)
    maker = {value: node for node in given for value in node.results}
    done: dict[str, Node] = {}
    waiting: set[str] = set()
    for first in given:
        pending = [first]
        while pending:
            node = pending[-1]
            if node.name in done:
                pending.pop()
                continue
            needed = [maker[value] for value in node.operands if value in maker and maker[value].name not in done]
            if not needed:
                done[pending.pop().name] = node
                waiting.discard(node.name)
            elif node.name in waiting:
                return None
            else:
                waiting.add(node.name)
                pending += needed[::-1]
    return tuple(done.values())
