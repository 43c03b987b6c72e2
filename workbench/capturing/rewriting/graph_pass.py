"""Graph passes: functions from a captured graph to a captured graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, TypeVar

from workbench.capturing.rewriting.checked_graph import checked
from workbench.ground.argument_types import checks_what_it_is_given
from workbench.ground.environment.owners import Owner, misfit
from workbench.ground.environment.registered import REWRITES
from workbench.ground.errors import BadRegistration, GraphPassFailed, GraphPassResult, WorkbenchError
from workbench.ir import AtenGraph

GraphPass: TypeAlias = Callable[[AtenGraph], AtenGraph]
P = TypeVar("P", bound=GraphPass)


@checks_what_it_is_given
def graph_pass(name: str) -> Callable[[P], P]:
    """Registers a function as the graph pass `name`: it gets the captured graph of every later trace, and returns the
    graph that is lowered. A later pass of the same name replaces it.

    Graph passes and patterns run in the order of their registration, each on the result of those before it. A graph is
    a frozen record: `dataclasses.replace(graph, nodes=...)` makes a changed copy. A new node has the origin of a node
    whose work it does. The pass may leave out the types of new values. The result is checked: see
    docs/adding-a-pattern.md.
    """
    if not name:
        raise BadRegistration("graph_pass(''): a pass has a name, by which fusion={'off': [name]} turns it off")

    def register(function: P) -> P:
        if not callable(function):
            raise BadRegistration(f"graph_pass({name!r}): {function!r:.60} is no function")
        if inspect.iscoroutinefunction(function):
            raise BadRegistration(f"graph_pass({name!r}): {function.__name__} is async; a pass must be synchronous")
        if wrong := misfit(function, "graph"):
            raise BadRegistration(f"graph_pass({name!r}): {wrong}; a pass takes the graph and returns one")
        REWRITES.add(name, function)
        return function

    return register


def passed(name: str, function: GraphPass, graph: AtenGraph) -> AtenGraph:
    """Returns the checked graph that a pass makes of `graph`, with all types; `graph` itself if the pass changes
    nothing."""
    place = Owner.of(function).place
    try:
        made = function(_with_own_dicts(graph))
    except WorkbenchError as error:
        raise GraphPassFailed(name, place, graph.name, str(error)) from error
    except (Exception, SystemExit) as error:  # of the user's own code; the error names the pass
        raise GraphPassFailed(name, place, graph.name, f"{type(error).__name__}: {error}") from error
    if not isinstance(made, AtenGraph):  # pyright: ignore[reportUnnecessaryIsInstance] - what a user's pass returns
        raise GraphPassResult(name, place, made)
    return graph if made == graph else checked(name, place, graph, made)


def _with_own_dicts(graph: AtenGraph) -> AtenGraph:
    """The same graph with dicts of its own: a pass that writes into one must not change the graph that was captured."""
    nodes = tuple(
        replace(
            node,
            args=tuple(_with_own_dicts(arg) if isinstance(arg, AtenGraph) else arg for arg in node.args),
            kwargs=dict(node.kwargs),
        )
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes, types=dict(graph.types))
