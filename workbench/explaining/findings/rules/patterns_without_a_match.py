"""Patterns that nearly match. A pattern exists so that its op runs in place of others; one that finds most of its nodes
and not all of them was probably meant for this program. What it would save is not known: its op never ran."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.explaining.findings import Facts, Finding, finding
from workbench.explaining.views.graphs.graph_tables import near_text

LEAST = 2
"""The least number of a pattern's nodes with a partner for a near match."""


@finding("pattern without a match")
def pattern_without_a_match(facts: Facts) -> Iterator[Finding]:
    captured = {node.name for node in facts.lowered.captured.nodes}
    for each in facts.lowered.rewrites:
        near = each.nearest
        if near is not None and near.matched >= max(LEAST, near.of / 2):
            nodes = tuple(name for name in near.nodes if name in captured)
            advice = "To have a match, change the pattern or these lines; what its op would save is known then"
            yield Finding("", 0, f"the pattern {each.name!r} has {near_text(each)}. {advice}", nodes=nodes)
