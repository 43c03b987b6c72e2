"""A pattern's matches in a graph, and the graph with one node in place of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from workbench.aten.automatic_route import class_of
from workbench.formulas.formula_builder import infer
from workbench.ir import AtenGraph, Literal, Match, Nearest, Node, Ref, TensorType
from workbench.rewriting.matching import Found, Host, Search, nearest
from workbench.rewriting.node_order import in_order
from workbench.rewriting.pattern import Bound, Number, Pattern
from workbench.rewriting.pattern_graph import PatternGraph
from workbench.rewriting.replacement import difference_of, replacement


@dataclass(frozen=True)
class Applied:
    """What a pattern made of a graph."""

    graph: AtenGraph
    matches: tuple[Match, ...]
    nearest: Nearest | None
    """How near it came, if it has no match."""


def applied(pattern: Pattern, graph: AtenGraph) -> Applied:
    """The graph with a node of the pattern's op for each match. Of matches that share a node the first one counts."""
    host, now, matches = Host(graph), graph, list[Match]()
    search = Search(pattern.graph, host, loosely=True)
    last, taken = pattern.graph.nodes[-1], set[str]()
    for node in graph.nodes:
        if node.op != last.op:
            continue
        for found in search.at(last, node):
            exact = _exactly(pattern, found, search, node)
            if exact is None or taken.intersection(each.name for each in exact[1].nodes.values()):
                continue
            made = _put(pattern, *exact, host, now, search)
            if made is not None:
                now, match = made
                matches.append(match)
                taken.update(match.nodes)
                break
    if matches:
        return Applied(now, tuple(matches), None)
    for wanted in pattern.graph.nodes[:-1]:  # a search from the last node alone does not see how far the others go
        for node in graph.nodes:
            if node.op == wanted.op:
                for _ in search.at(wanted, node):
                    pass
    return Applied(graph, (), nearest(search))


def _exactly(pattern: Pattern, found: Found, search: Search, last: Node) -> tuple[PatternGraph, Found] | None:
    """A match in which numbers differ, by the pattern's graph for the tensors of the match."""
    if not found.loose:
        return pattern.graph, found
    graph = pattern.at(_bound(pattern, pattern.graph, found, search.host.graph.types))
    if isinstance(graph, str):
        search.failed(found, pattern.graph.nodes[-1], last, graph)
        return None
    again = Search(graph, search.host)
    values = _parameters(pattern.graph, found)
    for exact in again.at(graph.nodes[-1], last):
        if _parameters(graph, exact) == values:
            return graph, exact
    if again.missing is not None:
        search.failed(replace(found, nodes=_named(again.missing.partners)), again.missing.wanted, again.missing.found,
                      again.missing.reason)  # fmt: skip
    return None


def _named(nodes: tuple[Node, ...]) -> Mapping[str, Node]:
    return {node.name: node for node in nodes}


def _parameters(graph: PatternGraph, found: Found) -> dict[str, str]:
    """What the parameters that are tensors stand for."""
    return {name: found.values[value] for value, name in graph.parameter_of.items()}


def _bound(pattern: Pattern, graph: PatternGraph, found: Found, types: Mapping[str, TensorType]) -> Bound:
    """What all parameters stand for, in their order: types of tensors, and numbers."""
    tensors = {name: types[value] for name, value in _parameters(graph, found).items()}
    numbers: dict[str, Number] = {}
    for name, literal in found.numbers.items():
        assert isinstance(literal.value, bool | int | float)
        numbers[name] = literal.value
    return {name: tensors[name] if name in tensors else numbers[name] for name in pattern.parameters.example}


def _put(
    pattern: Pattern, graph: PatternGraph, found: Found, host: Host, now: AtenGraph, search: Search
) -> tuple[AtenGraph, Match] | None:
    """The graph with one node for a match; None, with the reason kept, where that cannot be."""
    types, partners = now.types, {node.name for node in found.nodes.values()}
    results = tuple(found.values[value] for value in graph.outputs)

    def refused(value: str, reason: str) -> None:
        name = next(name for name, theirs in found.values.items() if theirs == value)
        search.failed(found, graph.maker[name][0], host.maker[value][0], reason)

    for node in found.nodes.values():
        for value in node.results:
            outside = [user.name for user in host.users.get(value, []) if user.name not in partners]
            if value not in results and (outside or value in host.kept):
                who = "the function returns it" if value in host.kept else f"{outside[0]} reads it too"
                refused(value, f"its value {value} is needed outside of the match: {who}")
                return None
    if not pattern.takes(_bound(pattern, graph, found, types)):
        refused(results[-1], "takes= of the pattern refuses these tensors and numbers")
        return None
    order = [node for node in host.graph.nodes if node.name in partners]
    origin = replace(order[-1].origin, node=results[0], op=pattern.op)
    given: dict[str, Ref | Literal] = {name: Ref(value) for name, value in _parameters(graph, found).items()}
    given |= found.numbers
    node = replacement(pattern.op, {name: given[name] for name in pattern.parameters.example}, results, origin)
    try:
        made = infer(node, types)
    except Exception as error:  # any exception of the op's fake
        refused(results[-1], f"{pattern.op} refuses these tensors: {type(error).__name__}: {error}")
        return None
    if difference := difference_of(made, tuple(types[value] for value in results)):
        refused(results[-1], f"{pattern.op} {difference}")
        return None
    last = order[-1].name
    nodes = in_order(node if old.name == last else old for old in now.nodes if old.name not in partners - {last})
    if nodes is None:
        refused(results[-1], "one of its operands is computed from one of its results, outside of the match")
        return None
    views = {value for each in order if class_of(each.op) == "view" for value in each.results}
    known = dict(types) | {value: kind for value, kind in zip(results, made, strict=True) if value in views}
    gone = {value for each in order for value in each.results} - set(results)
    kept = {value: kind for value, kind in known.items() if value not in gone}
    return replace(now, nodes=nodes, types=kept), Match(node.name, tuple(each.name for each in order))
