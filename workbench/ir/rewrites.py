"""The changes that graph passes and patterns made to a captured graph, one record for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.ir.graph import AtenGraph

PASS, PATTERN = "pass", "pattern"


@dataclass(frozen=True, slots=True)
class Match:
    """Nodes of a graph that became one, by a pattern."""

    node: str
    """The node in their place."""
    nodes: tuple[str, ...]
    """The nodes that it replaced, in order."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The nearest that a pattern without a match came to one."""

    matched: int
    """Nodes of the pattern that had a partner."""
    of: int
    """Nodes of the pattern."""
    wanted: str
    """The op of the pattern that had none, or whose partner was refused."""
    wanted_at: str
    """The pattern's line."""
    found: str
    """The node that stood there instead, or a value that no node makes."""
    found_at: str
    """The user's line."""
    reason: str
    nodes: tuple[str, ...] = ()
    """The partners that were found."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The change that one graph pass or pattern made, in the order in which they ran."""

    name: str
    kind: str
    """pass or pattern."""
    place: str
    """The line at which it is written."""
    on: bool
    """Whether it ran: the option `fusion` turns one off by its name."""
    graph: AtenGraph | None = None
    """The graph after it; None where it changed nothing."""
    stands_for: tuple[StandsFor, ...] = ()
    """The nodes of its graph that are no captured nodes, or stand for others as well."""
    matches: tuple[Match, ...] = ()
    """Of a pattern."""
    nearest: Nearest | None = None
    """Of a pattern without a match."""


@dataclass(frozen=True, slots=True)
class StandsFor:
    """A node of a rewritten graph, and the captured nodes whose work it does."""

    node: str
    captured: tuple[str, ...]
    """In the order of the captured graph."""


def last_graph(rewrites: Sequence[Rewrite], captured: AtenGraph) -> AtenGraph:
    """The graph after all of them."""
    return next((each.graph for each in reversed(rewrites) if each.graph is not None), captured)


def captured_behind(rewrites: Sequence[Rewrite]) -> dict[str, tuple[str, ...]]:
    """Node of the last graph -> the captured nodes behind it, for those that stand for others than themselves."""
    changed = [each for each in rewrites if each.graph is not None]
    return {each.node: each.captured for each in changed[-1].stands_for} if changed else {}


def taken_out(rewrites: Sequence[Rewrite], captured: AtenGraph, node: str) -> Rewrite | None:
    """Returns the pass or pattern that took a captured node out of the graph and put no other in its place."""
    if node not in {each.name for each in captured.nodes}:
        return None
    for each in rewrites:
        if each.graph is not None and node not in {left.name for left in each.graph.nodes}:
            return each
    return None


@dataclass(frozen=True)
class Rewritten:
    """A captured graph, and what passes and patterns made of it."""

    captured: AtenGraph
    rewrites: tuple[Rewrite, ...]

    @property
    def graph(self) -> AtenGraph:
        return last_graph(self.rewrites, self.captured)
