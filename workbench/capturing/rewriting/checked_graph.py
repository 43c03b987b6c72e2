"""The check of a graph that a pass returned: that it is one, of the same function, and that all its types are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Final

from workbench.capturing.rewriting.graph_form import mistakes_in_form
from workbench.capturing.rewriting.result_names import named_as_before
from workbench.ground.errors import InvalidRewrite, UnknownOverload
from workbench.ir import ASSERTIONS, AtenGraph, Node, RecordFormatError, TensorType, graph_checks
from workbench.operators.aten.overload_names import overloads
from workbench.operators.formulas.formula_builder import infer

KEPT: Final = ("name", "inputs", "tree", "aliases", "capture", "input_tree", "numbers")
"""What a pass leaves as it is: it says how the function is called and what its caller gets."""


def checked(name: str, place: str, before: AtenGraph, made: AtenGraph) -> AtenGraph:
    """The graph that a pass made, with the types of all values, its results under their names of before; raises for one
    that makes no sense."""
    return _Check(name, place, before, made).whole()


@dataclass
class _Check:
    """A graph that a pass made of another."""

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
        """Raises for nodes that nobody could run."""
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
        """The types of all values: those of before where nothing changed, and what changed nodes really make."""
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
        """Raises if the function would return, or store, something else than before."""
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
