"""The form of a graph that a pass returned: that its records hold what their fields say. Python itself does not check
that, and later steps rely on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from workbench.ir import AtenGraph, Literal, Node, Origin, Ref, Sequence, TensorType
from workbench.ir.graph import Mutation


def mistakes_in_form(graph: AtenGraph) -> Iterator[tuple[str, str]]:
    """What is wrong, and the name of the node where it is; empty for one of the graph itself."""
    for what, values, kind in (
        ("nodes", graph.nodes, Node),
        ("outputs", graph.outputs, str),
        ("mutations", graph.mutations, Mutation),
    ):
        if told := _no_tuple(what, values, kind):
            yield told, ""
    types = cast("object", graph.types)
    if not isinstance(types, dict) or not all(
        isinstance(value, str) and isinstance(kind, TensorType)
        for value, kind in cast("dict[object, object]", types).items()
    ):
        yield f"its types are {types!r:.60}; expected a dict from values to records of workbench.ir.TensorType", ""
    if isinstance(cast("object", graph.nodes), tuple):
        for node in graph.nodes:
            if isinstance(cast("object", node), Node):
                yield from ((told, _name(node)) for told in _of_node(node))


def _name(node: Node) -> str:
    return node.name if isinstance(cast("object", node.name), str) else repr(node.name)


def _of_node(node: Node) -> Iterator[str]:
    for what in ("name", "op"):
        given: object = getattr(node, what)
        if not isinstance(given, str) or not given:
            yield f"its {what} is {given!r:.60}; expected a text"
    if not isinstance(cast("object", node.origin), Origin):
        yield f"its origin is {node.origin!r:.60}; expected that of a node whose work it does: origin=node.origin"
    if told := _no_tuple("results", node.results, str):
        yield told
    args, kwargs = cast("object", node.args), cast("object", node.kwargs)
    if not isinstance(args, tuple):
        yield f"its args are {args!r:.60}; expected a tuple of references, literals and lists of them"
    if not isinstance(kwargs, dict):
        yield f"its kwargs are {kwargs!r:.60}; expected a dict of references, literals and lists of them"
    if isinstance(args, tuple) and isinstance(kwargs, dict):
        for arg in (*cast("tuple[object, ...]", args), *cast("dict[str, object]", kwargs).values()):
            yield from _of_argument(arg)


def _of_argument(arg: object) -> Iterator[str]:
    if isinstance(arg, Sequence):
        for item in arg.items:
            yield from _of_argument(item)
    elif isinstance(arg, AtenGraph):
        yield from (told for told, _ in mistakes_in_form(arg))
    elif isinstance(arg, bool | int | float | str) or arg is None:
        kind = "none" if arg is None else type(arg).__name__
        told = f"its argument {arg!r:.60} is a plain value; expected a number as Literal({kind!r}, {arg!r:.60})"
        yield f"{told}, and a tensor as Ref({arg!r:.60})" if isinstance(arg, str) else told
    elif not isinstance(arg, Ref | Literal):
        yield f"its argument is {arg!r:.60}; expected a Ref, a Literal or a Sequence of workbench.ir"


def _no_tuple(what: str, given: object, kind: type) -> str:
    """Why these are no tuple of such values; empty if they are."""
    expected = "texts" if kind is str else f"records of workbench.ir.{kind.__name__}"
    if not isinstance(given, tuple):
        return f"its {what} are {given!r:.60}; expected a tuple of {expected}"
    wrong = [each for each in cast("tuple[object, ...]", given) if not isinstance(each, kind)]
    return f"its {what} have {wrong[0]!r:.60} among them; expected {expected}" if wrong else ""
