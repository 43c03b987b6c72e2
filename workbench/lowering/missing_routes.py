"""The error for ops without a route: the places of each op, the reason, and code to start from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from workbench.ground import errors
from workbench.ir import AtenGraph, Node
from workbench.operators.aten.run_node import HIGHER_ORDER
from workbench.operators.new_op.operator_facts import facts_of
from workbench.operators.new_op.skeleton import stub


def missing_routes(graph: AtenGraph, missing: list[Node], faulty: Mapping[str, str]) -> errors.MissingRoutes:
    """One error for all ops without a route; `faulty` has the reasons for some nodes."""
    counts = Counter(node.op for node in missing)
    lines = [f"{graph.name} uses {len(counts)} op(s) that have no route:"]
    for op, count in sorted(counts.items()):
        places = sorted({node.origin.place for node in missing if node.op == op})
        lines.append(f"  {op}: {count} node(s), at {', '.join(places)}")
        lines += sorted({f"    {faulty[node.name]}" for node in missing if node.op == op and node.name in faulty})
    lines.append("Register a builder or a template for each, or run them on the host with on_missing='host'.")
    lines.append("Start with these lines (`workbench new-op` writes them, with a test and a notebook):")
    for op in sorted(op for op in counts if not op.startswith(HIGHER_ORDER)):
        lines += ["", *(f"    {line}".rstrip() for line in stub(facts_of(op)).splitlines())]
    return errors.MissingRoutes("\n".join(lines))
