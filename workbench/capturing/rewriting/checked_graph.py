"""Checks the graph that a pass returned, and finds the types of all its values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Final, cast

from workbench.ground.errors import InvalidRewrite, UnknownOverload
from workbench.ir import (
    ASSERTIONS,
    AtenGraph,
    Literal,
    Node,
    Origin,
    RecordFormatError,
    Ref,
    Sequence,
    TensorType,
    graph_checks,
)
from workbench.ir.graph import Mutation
from workbench.ir.value_names import counted_name
from workbench.operators.aten.overload_names import overloads
from workbench.operators.formulas.decompose import reading
from workbench.operators.formulas.formula_builder import infer

KEPT: Final = ("name", "inputs", "tree", "aliases", "capture", "input_tree", "numbers")
"""Fields that a pass must not change: they say how the function is called and what its caller gets."""


def checked(name: str, place: str, before: AtenGraph, made: AtenGraph) -> AtenGraph:
    """Returns the graph that a pass made, with the types of all values, and with its results under their earlier names.
    Raises for a graph that is invalid or changes the function's results."""
    return _Check(name, place, before, made).whole()


@dataclass
class _Check:
    """The check of the graph `made`, which a pass made of `before`."""

    name: str
    place: str
    before: AtenGraph
    made: AtenGraph

    def refused(self, reason: str, node: str = "") -> InvalidRewrite:
        return InvalidRewrite(self.name, self.place, node, reason)

    @cached_property
    def old(self) -> dict[str, Node]:
        return {node.name: node for node in self.before.nodes}

    def whole(self) -> AtenGraph:
        for mistake, node in mistakes_in_form(self.made):
            raise self.refused(mistake, node)
        for each in fields(AtenGraph):
            if each.name in KEPT and getattr(self.made, each.name) != getattr(self.before, each.name):
                raise self.refused(
                    f"it changed {each.name!r} of the graph; a pass changes nodes, results and types only"
                )
        self._nodes()
        types = self._types()
        self._results(types)
        graph = named_as_before(self.before, replace(self.made, types=types))
        try:
            graph_checks.check_graph(graph)
        except RecordFormatError as error:
            raise self.refused(str(error)) from None
        return graph

    def _nodes(self) -> None:
        """Raises if a node cannot run, a new node has no origin in the graph, or an assertion is left out."""
        known, names = {slot.value for slot in self.made.inputs}, set[str]()
        for node in self.made.nodes:
            if node.name in names:
                raise self.refused("two nodes have this name", node.name)
            names.add(node.name)
            self._reads(node, known)
            known.update(node.results)
            if self.old.get(node.name) != node:
                self._is_overload(node)
            if node.name not in self.old and node.origin.node not in self.old:
                raise self.refused(
                    f"it is new, and its origin {node.origin.node!r} is no node of the graph. Give it the origin of a "
                    "node whose work it does: origin=node.origin",
                    node.name,
                )
        for node in self.before.nodes:
            if node.op in ASSERTIONS and node.name not in names:
                raise self.refused("it asserts something of the data, and is left out", node.name)

    def _reads(self, node: Node, known: set[str]) -> None:
        for value in node.operands:
            if value not in known:
                later = any(value in each.results for each in self.made.nodes)
                what = "is made only after it" if later else "no node makes, and is no input"
                raise self.refused(f"it reads {value!r}, which {what}", node.name)
        for value in node.results:
            if value in known:
                raise self.refused(f"it makes {value!r}, which exists already", node.name)

    def _is_overload(self, node: Node) -> None:
        try:
            known = overloads(node.op)
        except UnknownOverload as error:
            raise self.refused(f"it calls {error}", node.name) from None
        if known != (node.op,):
            raise self.refused(f"it calls {node.op!r}; write one overload of {', '.join(known)}", node.name)

    def _types(self) -> dict[str, TensorType]:
        """Returns the types of all values: the earlier types where nothing changed, and inferred types for changed
        nodes."""
        before = self.before.types
        types = {slot.value: before[slot.value] for slot in self.made.inputs}
        for node in self.made.nodes:
            same = self.old.get(node.name) == node
            if same and all(types[value] == before[value] for value in node.operands):
                types.update({value: before[value] for value in node.results})
            else:
                types.update(self._inferred(node, types))
        return types

    def _inferred(self, node: Node, types: Mapping[str, TensorType]) -> dict[str, TensorType]:
        try:
            found = infer(node, types)
        except Exception as error:  # PyTorch's own, or that of the fake of a user's op
            told = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
            raise self.refused(f"{node.op} cannot be called like that: {told}", node.name) from None
        if len(found) != len(node.results):
            raise self.refused(f"{node.op} makes {len(found)} tensors, and has {len(node.results)} results", node.name)
        made = dict(zip(node.results, found, strict=True))
        for value, kind in made.items():
            given = self.made.types.get(value)
            if given is None or given == self.before.types.get(value):
                continue  # the pass says nothing about it
            if (given.shape, given.dtype) != (kind.shape, kind.dtype):
                raise self.refused(f"the graph says that {value!r} is {given}, and {node.op} makes {kind}", node.name)
        return made

    def _results(self, types: Mapping[str, TensorType]) -> None:
        """Raises if the function would return or store other tensors than before the pass."""
        before, made = self.before, self.made
        if len(made.outputs) != len(before.outputs):
            raise self.refused(f"the function returns {len(before.outputs)} tensors, and {len(made.outputs)} now")
        targets, now = [each.target for each in before.mutations], [each.target for each in made.mutations]
        if targets != now:
            told = [", ".join(each) or "nothing" for each in (targets, now)]
            raise self.refused(f"the function changes {told[0]} in place, and {told[1]} now")
        rows = [(f"result {place}", *pair) for place, pair in enumerate(zip(before.outputs, made.outputs, strict=True))]
        rows += [
            (f"what is stored in {old.target}", old.value, new.value)
            for old, new in zip(before.mutations, made.mutations, strict=True)
        ]
        meant: dict[str, str] = {}
        inputs = {slot.value for slot in before.inputs}
        for what, old, new in rows:
            if new not in types:
                raise self.refused(f"{what} is {new!r}, which no node makes, and is no input")
            kinds = before.types[old], types[new]
            if (kinds[0].shape, kinds[0].dtype) != (kinds[1].shape, kinds[1].dtype):
                raise self.refused(f"{what} was {old!r} of {kinds[0]}, and is {new!r} of {kinds[1]} now")
            if meant.setdefault(old, new) != new:
                raise self.refused(f"{what} was the same tensor as another result, and is {new!r} now, which is not")
            if old in inputs and new != old:
                raise self.refused(f"{what} was the input {old!r} as it is, and is {new!r} now")


def mistakes_in_form(graph: AtenGraph) -> Iterator[tuple[str, str]]:
    """Yields each mistake in a graph's records with the name of its node; the name is empty for a mistake of the graph
    itself."""
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
                name = node.name if isinstance(cast("object", node.name), str) else repr(node.name)
                yield from ((told, name) for told in _of_node(node))


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
    """Says why `given` is not a tuple of such values; empty if it is."""
    expected = "texts" if kind is str else f"records of workbench.ir.{kind.__name__}"
    if not isinstance(given, tuple):
        return f"its {what} are {given!r:.60}; expected a tuple of {expected}"
    wrong = [each for each in cast("tuple[object, ...]", given) if not isinstance(each, kind)]
    return f"its {what} have {wrong[0]!r:.60} among them; expected {expected}" if wrong else ""


def named_as_before(before: AtenGraph, graph: AtenGraph) -> AtenGraph:
    """Returns the graph with the names that `before` has for its results, and for the values that it stores in
    inputs."""
    given = *before.outputs, *(change.value for change in before.mutations)
    now = *graph.outputs, *(change.value for change in graph.mutations)
    wanted = {old: new for old, new in zip(given, now, strict=True) if old != new}
    if not wanted:
        return graph
    taken = {*graph.types, *before.types}
    names: dict[str, str] = {}
    for old in wanted:
        if old in graph.types:  # another value has the name now
            names[old] = counted_name(f"{old}_before", taken)
            taken.add(names[old])
    fixed = {slot.value for slot in graph.inputs} | ({*given} - wanted.keys())
    copied: dict[str, str] = {}
    for old, new in wanted.items():
        if new in fixed or new in names:  # an input, or one value for two results: it needs a tensor of its own
            copied[old] = new
        else:
            names[new] = old
    nodes = [_renamed(node, names) for node in graph.nodes]
    types = {names.get(value, value): kind for value, kind in graph.types.items()}
    origins = {value: node.origin for node in nodes for value in node.results}
    for old, new in copied.items():
        source = names.get(new, new)
        origin = origins.get(source) or next((node.origin for node in nodes), Origin(old, "aten.clone.default"))
        nodes.append(Node(old, "aten.clone.default", (Ref(source),), {}, (old,), origin))
        types[old] = types[source]
    return replace(graph, nodes=tuple(nodes), types=types, outputs=before.outputs, mutations=before.mutations)


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    if not {*node.operands, *node.results} & names.keys():
        return node
    results = tuple(names.get(value, value) for value in node.results)
    name = results[0] if node.results == (node.name,) else node.name
    return replace(reading(node, names), name=name, results=results)
