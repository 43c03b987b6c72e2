"""Results of a rewritten graph under the names they had: later stages, and the caller, know them by these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from workbench.ir import AtenGraph, Node, Origin, Ref
from workbench.ir.value_names import counted_name
from workbench.operators.formulas.decompose import reading


def named_as_before(before: AtenGraph, graph: AtenGraph) -> AtenGraph:
    """The graph with the names that `before` has for its results, and for what is stored in inputs."""
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
