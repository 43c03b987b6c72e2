"""A lowering of a rewritten graph, told of the captured one: what its nodes were made of, and by which pattern."""

from __future__ import annotations

from dataclasses import replace

from workbench.ir import KernelGraph, LoweredNode, Rewritten
from workbench.ir.rewrites import captured_behind


def with_origins(lowered: KernelGraph, made: Rewritten) -> KernelGraph:
    """The lowered graph with captured nodes behind its nodes, and with the record of all passes and patterns."""
    if not made.rewrites:
        return lowered
    behind = captured_behind(made.rewrites)
    order = {node.name: place for place, node in enumerate(made.captured.nodes)}
    op_of = {node.name: node.op for node in made.graph.nodes}
    by_pattern = {match.node: each.name for each in made.rewrites for match in each.matches}
    merged: dict[str, dict[str, None]] = {}

    def told(item: LoweredNode) -> LoweredNode:
        parents = {each for name in lowered.together(item.parent) for each in behind.get(name, (name,))}
        first, *others = sorted(parents, key=order.__getitem__)
        if others:
            merged.setdefault(first, {}).update(dict.fromkeys(others))
        rule = by_pattern.get(item.parent, "") if op_of[item.parent] == item.node.op else ""
        return replace(item, parent=first, rule=rule or item.rule)

    nodes = tuple(told(item) for item in lowered.nodes)
    return replace(
        lowered,
        captured=made.captured,
        nodes=nodes,
        rewrites=made.rewrites,
        merged={name: tuple(others) for name, others in merged.items()},
    )
