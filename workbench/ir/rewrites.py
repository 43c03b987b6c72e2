"""The changes that graph passes and patterns made to a captured graph, one record for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.ir.graph import AtenGraph

PASS, PATTERN = "pass", "pattern"


@dataclass(frozen=True, slots=True)
class Match:
    """Nodes of a graph that a pattern replaced by one node."""

    node: str
    """The node in place of the others."""
    nodes: tuple[str, ...]
    """The replaced nodes, in order."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The candidate nearest to a match, for a pattern without a match."""

    matched: int
    """The number of the pattern's nodes that had a partner."""
    of: int
    """The number of the pattern's nodes."""
    wanted: str
    """The op of the pattern's node that had no partner, or whose partner was refused."""
    wanted_at: str
    """The pattern's line."""
    found: str
    """The node that stood in the place of `wanted`, or a value that no node makes."""
    found_at: str
    """The user's line."""
    reason: str
    nodes: tuple[str, ...] = ()
    """The partners that were found."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The change that one graph pass or pattern made. A graph lists its rewrites in the order in which they ran."""

    name: str
    kind: str
    """pass or pattern."""
    place: str
    """The line at which the pass or pattern is written."""
    on: bool
    """True if the pass or pattern ran: the option `fusion` turns it off by its name."""
    graph: AtenGraph | None = None
    """The graph after the pass or pattern; None if it changed nothing."""
    stands_for: tuple[StandsFor, ...] = ()
    """The nodes of `graph` that are no captured nodes, or stand for others as well."""
    matches: tuple[Match, ...] = ()
    """The matches of a pattern."""
    nearest: Nearest | None = None
    """The nearest candidate of a pattern without a match."""


@dataclass(frozen=True, slots=True)
class StandsFor:
    """A node of a rewritten graph, and the captured nodes whose work it does."""

    node: str
    captured: tuple[str, ...]
    """The captured nodes, in the order of the captured graph."""


def last_graph(rewrites: Sequence[Rewrite], captured: AtenGraph) -> AtenGraph:
    """The graph after all rewrites."""
    return next((each.graph for each in reversed(rewrites) if each.graph is not None), captured)


def captured_behind(rewrites: Sequence[Rewrite]) -> dict[str, tuple[str, ...]]:
    """For each node of the last graph the captured nodes behind it, unless these are the node alone."""
    changed = [each for each in rewrites if each.graph is not None]
    return {each.node: each.captured for each in changed[-1].stands_for} if changed else {}


def taken_out(rewrites: Sequence[Rewrite], captured: AtenGraph, node: str) -> Rewrite | None:
    """Returns the first pass or pattern after which a captured node is no longer in the graph; None if there is
    none."""
    if node not in {each.name for each in captured.nodes}:
        return None
    for each in rewrites:
        if each.graph is not None and node not in {left.name for left in each.graph.nodes}:
            return each
    return None


@dataclass(frozen=True)
class Rewritten:
    """A captured graph, and the changes that passes and patterns made to it."""

    captured: AtenGraph
    rewrites: tuple[Rewrite, ...]

    @property
    def graph(self) -> AtenGraph:
        return last_graph(self.rewrites, self.captured)
