"""Finds a pattern's nodes in a graph.

A search begins with one node of the pattern and one of the graph. It goes from a node to the makers of its operands,
then to readers of values that are known already. If the operands of an op may be exchanged, both orders are tried. The
failed search with the most partners is kept, to say how near the pattern came to a match.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from workbench.capturing.rewriting.pattern_graph import Free, Items, Part, PatternGraph, same_literal
from workbench.ir import Arg, AtenGraph, Literal, Nearest, Node, Ref, Sequence
from workbench.ir.value_names import written
from workbench.operators.aten.overload_schema import arguments

COMMUTATIVE: Final = frozenset(
    f"aten.{name}"
    for name in (
        *("add.Tensor", "mul.Tensor", "maximum.default", "minimum.default", "eq.Tensor", "ne.Tensor"),
        *("bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor"),
        *("logical_and.default", "logical_or.default", "logical_xor.default"),
    )
)
"""Ops whose first two operands may be exchanged; those of an addition only if its `alpha` is 1."""


@dataclass(frozen=True)
class Found:
    """A part of a match: partners in the graph for nodes and values of the pattern."""

    nodes: Mapping[str, Node] = field(default_factory=dict[str, Node])
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    numbers: Mapping[str, Literal] = field(default_factory=dict[str, Literal])
    loose: bool = False
    """True if some number differs that may follow from the extents of tensors."""


@dataclass(frozen=True)
class Missing:
    """The reason why a search ended: the node of the pattern, the node or value in its place, and the partners found
    before."""

    wanted: Node
    found: Node | str
    reason: str
    partners: tuple[Node, ...]


class Host:
    """A graph in which patterns are searched."""

    def __init__(self, graph: AtenGraph) -> None:
        self.graph = graph
        self.maker = {value: (node, place) for node in graph.nodes for place, value in enumerate(node.results)}
        self.users: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for value in node.operands:
                self.users.setdefault(value, []).append(node)
        self.kept = {*graph.outputs, *(change.value for change in graph.mutations)}
        """Values that the function returns or stores."""
        self._arguments: dict[str, Mapping[str, Arg]] = {}

    def arguments(self, node: Node) -> Mapping[str, Arg]:
        if node.name not in self._arguments:
            self._arguments[node.name] = {} if node.bodies else arguments(node)
        return self._arguments[node.name]


@dataclass
class Search:
    """The search of one pattern in one graph."""

    pattern: PatternGraph
    host: Host
    loosely: bool = False
    """True if numbers may differ, since they may follow from extents."""
    missing: Missing | None = None
    """The failed search that came furthest."""

    def at(self, wanted: Node, node: Node) -> Iterator[Found]:
        """Yields all matches in which `node` is the partner of `wanted`."""
        yield from self._solve(Found(), ((wanted, node),))

    def failed(self, found: Found, wanted: Node, instead: Node | str, reason: str) -> None:
        """Notes why a search ended, if no earlier search came as far."""
        if self.missing is None or len(found.nodes) > len(self.missing.partners):
            self.missing = Missing(wanted, instead, reason, tuple(found.nodes.values()))

    def _solve(self, found: Found, pending: tuple[tuple[Node, Node], ...]) -> Iterator[Found]:
        if not pending:
            yield from self._beyond(found)
            return
        (wanted, node), *rest = pending
        if wanted.name in found.nodes:
            if found.nodes[wanted.name] is node:
                yield from self._solve(found, tuple(rest))
            else:
                self.failed(found, wanted, node, f"it is {found.nodes[wanted.name].name} elsewhere in the pattern")
            return
        if any(node is other for other in found.nodes.values()):
            self.failed(found, wanted, node, f"{node.name} is the partner of another node of the pattern already")
            return
        if wanted.op != node.op or len(wanted.results) != len(node.results):
            self.failed(found, wanted, node, f"it is {node.op}")
            return
        made = dict(zip(wanted.results, node.results, strict=True))
        for order in self._orders(wanted, node):
            grown = replace(found, values={**found.values, **made}, nodes={**found.nodes, wanted.name: node})
            further: list[tuple[Node, Node]] = []
            now = self._fitted(grown, wanted, node, order, further, found)
            if now is not None:
                yield from self._solve(now, (*further, *rest))

    def _orders(self, wanted: Node, node: Node) -> Iterator[Mapping[str, Arg]]:
        """Yields the arguments of a node of the graph, and, if its op is commutative, the arguments with the first two
        exchanged."""
        given = self.host.arguments(node)
        yield given
        one = Literal("int", 1)
        if wanted.op in COMMUTATIVE and given.get("alpha", one) == one:
            first, second = [*given][:2]
            if given[first] != given[second]:
                yield {**given, first: given[second], second: given[first]}

    def _fitted(
        self,
        found: Found,
        wanted: Node,
        node: Node,
        given: Mapping[str, Arg],
        further: list[tuple[Node, Node]],
        before: Found,
    ) -> Found | None:
        """Returns `found` with all arguments of a node bound, None if an argument does not fit. Adds the pairs of nodes
        that remain to be compared to `further`."""
        for name, part in self.pattern.arguments[wanted.name].items():
            now = self._bound(found, part, given[name], further)
            if isinstance(now, str):
                self.failed(before, wanted, node, f"its argument {name!r} {now}")
                return None
            found = now
        return found

    def _bound(self, found: Found, part: Part, arg: Arg, further: list[tuple[Node, Node]]) -> Found | str:
        """Returns `found` with one argument bound, or a text that says why the argument does not fit."""
        if isinstance(part, Items):
            if not isinstance(arg, Sequence) or len(part.items) != len(arg.items):
                return f"is {written(arg)} and not a list of {len(part.items)}"
            for inner, item in zip(part.items, arg.items, strict=True):
                now = self._bound(found, inner, item, further)
                if isinstance(now, str):
                    return now
                found = now
            return found
        if isinstance(part, Ref):
            return self._value(found, part.value, arg.value, further) if isinstance(arg, Ref) else f"is {written(arg)}"
        if not isinstance(arg, Literal):
            return f"is {written(arg)} and not a number"
        if isinstance(part, Free):
            known = found.numbers.get(part.parameter, arg)
            if arg.kind not in ("bool", "int", "float") or known != arg:
                return f"is {written(arg)}, and {part.parameter} is {written(known)} elsewhere"
            return replace(found, numbers={**found.numbers, part.parameter: arg})
        if same_literal(part, arg):
            return found
        if self.loosely and part.kind in ("int", "float") and arg.kind == part.kind:
            return replace(found, loose=True)
        return f"is {written(arg)} and not {written(part)}"

    def _value(self, found: Found, wanted: str, value: str, further: list[tuple[Node, Node]]) -> Found | str:
        if wanted in found.values:
            known = found.values[wanted]
            return found if known == value else f"is {value}, where the pattern has {known} again"
        maker = self.pattern.maker.get(wanted)
        if maker is None:
            return replace(found, values={**found.values, wanted: value})
        theirs = self.host.maker.get(value)
        if theirs is None:
            self.failed(found, maker[0], value, "it is given from outside")
            return f"is {value}, which no op makes"
        if theirs[1] != maker[1]:
            return f"is result {theirs[1]} of {theirs[0].name} and not its result {maker[1]}"
        further.append((maker[0], theirs[0]))
        return found

    def _beyond(self, found: Found) -> Iterator[Found]:
        """Goes on to nodes of the pattern that only read known values; yields complete matches."""
        for wanted in self.pattern.nodes:
            if wanted.name in found.nodes:
                continue
            known = [found.values[value] for value in wanted.operands if value in found.values]
            if not known:
                continue
            readers = [node for node in self.host.users.get(known[0], []) if node not in found.nodes.values()]
            fitting = [node for node in readers if node.op == wanted.op]
            if not fitting:
                here = readers[0] if readers else known[0]
                told = f"{known[0]} is read by {', '.join(node.name for node in readers) or 'nothing else'}"
                self.failed(found, wanted, here, told)
            for node in fitting:
                yield from self._solve(found, ((wanted, node),))
            return
        if len(found.nodes) == len(self.pattern.nodes):
            yield found


def nearest(missing: Missing | None, search: Search) -> Nearest | None:
    """Returns a record of the search that came nearest to a match; None if the graph has none of the pattern's ops."""
    if missing is None:
        return None
    instead = missing.found
    return Nearest(
        matched=len(missing.partners),
        of=len(search.pattern.nodes),
        wanted=missing.wanted.op,
        wanted_at=missing.wanted.origin.place,
        found=f"{instead.name} = {instead.op}" if isinstance(instead, Node) else instead,
        found_at=instead.origin.place if isinstance(instead, Node) else "",
        reason=missing.reason,
        nodes=tuple(node.name for node in search.host.graph.nodes if node in missing.partners),
    )
