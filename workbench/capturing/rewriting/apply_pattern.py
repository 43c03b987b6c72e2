"""Finds a pattern's matches in a graph, and puts one node in place of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from workbench.capturing.rewriting.matching import Found, Host, Missing, Search, nearest
from workbench.capturing.rewriting.pattern import Pattern, difference_of, replacement
from workbench.capturing.rewriting.pattern_graph import Given, PatternGraph
from workbench.ir import AtenGraph, Literal, Match, Nearest, Node, Origin, Ref, TensorType
from workbench.operators.aten.automatic_route import class_of
from workbench.operators.formulas.formula_builder import infer


@dataclass(frozen=True)
class Applied:
    """The graph after a pattern, and its matches."""

    graph: AtenGraph
    matches: tuple[Match, ...]
    nearest: Nearest | None
    """The candidate nearest to a match, for a pattern without a match."""


def applied(pattern: Pattern, graph: AtenGraph) -> Applied:
    """Returns the graph with a node of the pattern's op for each match. Of matches that share a node the first one
    counts."""
    return _Run(pattern, Host(graph), graph).whole()


@dataclass
class _Run:
    """One pattern at work on one graph."""

    pattern: Pattern
    host: Host
    """The graph before the pattern is applied."""
    now: AtenGraph
    """The graph with one node for each match so far."""
    matches: list[Match] = field(default_factory=list[Match])
    refused: Missing | None = None
    """A match that was refused although all its nodes were found, with the reason."""
    inexact: Search | None = None
    """The search for the exact graph of the first candidate whose numbers differ."""

    def whole(self) -> Applied:
        wanted, taken = self.pattern.graph, set[str]()
        search, last = Search(wanted, self.host, loosely=True), wanted.nodes[-1]
        for node in self.host.graph.nodes:
            for found in search.at(last, node) if node.op == last.op else ():
                exact = self._exactly(found, node)
                if exact is None or taken.intersection(each.name for each in exact[1].nodes.values()):
                    continue
                match = self._put(*exact)
                if match is not None:
                    self.matches.append(match)
                    taken.update(match.nodes)
                    break
        return Applied(self.now, tuple(self.matches), None if self.matches else self._nearest(search))

    def _nearest(self, search: Search) -> Nearest | None:
        """Returns the candidate nearest to a match: a refused match, a candidate whose numbers differ, or else the
        candidate with the most partners."""
        if self.refused is not None:
            return nearest(self.refused, search)
        search = self.inexact or search
        for wanted in search.pattern.nodes[:-1]:  # until now the search began at the last node only
            for node in self.host.graph.nodes:
                if node.op == wanted.op:
                    for _ in search.at(wanted, node):
                        pass
        return nearest(search.missing, search)

    def _exactly(self, found: Found, last: Node) -> tuple[PatternGraph, Found] | None:
        """Matches again with the pattern's graph for these tensors; None if that graph does not match. A number in the
        example's graph may follow from the example's extents and be another one here, or be equal only by chance."""
        bound = self._bound(self.pattern.graph, found)
        if not found.loose and (not self.pattern.graph.has_numbers or bound == self.pattern.example):
            return self.pattern.graph, found
        graph = self.pattern.at(bound)
        if isinstance(graph, str):
            self.refused = Missing(self.pattern.graph.nodes[-1], last, graph, tuple(found.nodes.values()))
            return None
        again, tensors = Search(graph, self.host), _tensors(self.pattern.graph, found)
        if graph.nodes[-1].op == last.op:
            for exact in again.at(graph.nodes[-1], last):
                if _tensors(graph, exact) == tensors:
                    return graph, exact
        self.inexact = self.inexact or again
        return None

    def _bound(self, graph: PatternGraph, found: Found) -> Given:
        """Returns the tensor type or number for each parameter, in the order of the parameters."""
        bound: dict[str, TensorType | bool | int | float] = {
            name: self.host.graph.types[value] for name, value in _tensors(graph, found).items()
        }
        for name, literal in found.numbers.items():
            assert isinstance(literal.value, bool | int | float)
            bound[name] = literal.value
        return {name: bound[name] for name in self.pattern.example}

    def _refuse(self, graph: PatternGraph, found: Found, value: str, reason: str) -> None:
        """Notes a match that is refused because of one of its values, with the reason; the first such match is kept."""
        name = next(name for name, theirs in found.values.items() if theirs == value and name in graph.maker)
        instead = self.host.maker[value][0]
        self.refused = self.refused or Missing(graph.maker[name][0], instead, reason, tuple(found.nodes.values()))

    def _put(self, graph: PatternGraph, found: Found) -> Match | None:
        """Puts one node in place of a match; returns None, and notes the reason, if that is impossible."""
        types, partners = self.now.types, {node.name for node in found.nodes.values()}
        results = tuple(found.values[value] for value in graph.outputs)
        if inner := _needed_outside(self.host, found, results):
            self._refuse(graph, found, *inner)
            return None
        if not self.pattern.takes(self._bound(graph, found)):
            self._refuse(graph, found, results[-1], "takes= of the pattern refuses these tensors and numbers")
            return None
        order = [node for node in self.host.graph.nodes if node.name in partners]
        node = self._node(graph, found, results, order[-1].origin)
        try:
            made = infer(node, types)
            difference = difference_of(made, tuple(types[value] for value in results))
        except Exception as error:  # any exception of the op's fake
            made, difference = (), f"refuses these tensors: {type(error).__name__}: {error}"
        if difference:
            self._refuse(graph, found, results[-1], f"{self.pattern.op} {difference}")
            return None
        last = order[-1].name
        gone = partners - {last}
        nodes = in_order(node if old.name == last else old for old in self.now.nodes if old.name not in gone)
        if nodes is None:
            told = "one of its operands is computed from one of its results, outside of the match"
            self._refuse(graph, found, results[-1], told)
            return None
        views = {value for each in order if class_of(each.op) == "view" for value in each.results}
        known = dict(types) | {value: kind for value, kind in zip(results, made, strict=True) if value in views}
        inside = {value for each in order for value in each.results} - set(results)
        self.now = replace(
            self.now, nodes=nodes, types={value: kind for value, kind in known.items() if value not in inside}
        )
        return Match(node.name, tuple(each.name for each in order))

    def _node(self, graph: PatternGraph, found: Found, results: tuple[str, ...], last: Origin) -> Node:
        given: dict[str, Ref | Literal] = {name: Ref(value) for name, value in _tensors(graph, found).items()}
        given |= found.numbers
        origin = replace(last, node=results[0], op=self.pattern.op)
        bound = {name: given[name] for name in self.pattern.example}
        return replacement(self.pattern.op, bound, results, origin)


def in_order(nodes: Iterable[Node]) -> tuple[Node, ...] | None:
    """The nodes in the given order, except that makers of operands move to the front of their readers; None if nodes
    wait for each other."""
    given = tuple(nodes)
    maker = {value: node for node in given for value in node.results}
    done: dict[str, Node] = {}
    waiting: set[str] = set()
    for first in given:
        pending = [first]
        while pending:
            node = pending[-1]
            if node.name in done:
                pending.pop()
                continue
            needed = [maker[value] for value in node.operands if value in maker and maker[value].name not in done]
            if not needed:
                done[pending.pop().name] = node
                waiting.discard(node.name)
            elif node.name in waiting:
                return None
            else:
                waiting.add(node.name)
                pending += needed[::-1]
    return tuple(done.values())


def _needed_outside(host: Host, found: Found, results: tuple[str, ...]) -> tuple[str, str] | None:
    """An inner value of a match that is needed outside of the match, with the reason; None if there is none."""
    partners = {node.name for node in found.nodes.values()}
    for node in found.nodes.values():
        for value in node.results:
            outside = [user.name for user in host.users.get(value, []) if user.name not in partners]
            if value not in results and (outside or value in host.kept):
                who = "the function returns it" if value in host.kept else f"{outside[0]} reads it too"
                return value, f"its value {value} is needed outside of the match: {who}"
    return None


def _tensors(graph: PatternGraph, found: Found) -> dict[str, str]:
    """Returns the value for each parameter that is a tensor."""
    return {name: found.values[value] for value, name in graph.parameter_of.items()}
