"""Errors of graph passes and patterns, each with the name under which it is registered and its place."""

from __future__ import annotations

from workbench.ground.errors.workbench_error import WorkbenchError


class BadPattern(WorkbenchError):
    """A pattern cannot be registered."""

    def __init__(self, name: str, place: str, reason: str) -> None:
        super().__init__(f"pattern {name!r} at {place}: {reason}")
        self.name, self.place = name, place


class PatternFailed(WorkbenchError):
    """The `takes=` of a pattern raised an exception, or returned no bool."""


class GraphPassFailed(WorkbenchError):
    """A graph pass raised an exception."""

    def __init__(self, name: str, place: str, graph: str, reason: str) -> None:
        super().__init__(f"graph pass {name!r} at {place}, for {graph}, raised {reason}")
        self.name, self.place = name, place


class GraphPassResult(WorkbenchError, TypeError):
    """A graph pass returned something else than a captured graph."""

    def __init__(self, name: str, place: str, found: object) -> None:
        hint = "; did you forget to return the graph? Expected" if found is None else "; expected"
        super().__init__(
            f"graph pass {name!r} at {place} returned {type(found).__name__}{hint} a captured graph, such as "
            "dataclasses.replace(graph, nodes=...), or the given graph where there is nothing to change"
        )
        self.name, self.place = name, place


class InvalidRewrite(WorkbenchError):
    """A graph pass returned a graph that makes no sense, or that is none of the same function."""

    def __init__(self, name: str, place: str, node: str, reason: str) -> None:
        where = f", node {node!r}" if node else ""
        super().__init__(f"graph pass {name!r} at {place}{where}: {reason}")
        self.name, self.place, self.node = name, place, node
