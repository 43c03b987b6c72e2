"""Runs graph passes and patterns, one after the other, on a captured graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TypeAlias

from workbench.capturing.rewriting.apply_pattern import applied
from workbench.capturing.rewriting.graph_pass import passed
from workbench.capturing.rewriting.pattern import Pattern
from workbench.ground.environment.owners import Owner
from workbench.ground.environment.registered import REWRITES
from workbench.ground.errors import RegistrationGone
from workbench.ir import BREAK, AtenGraph, KernelGraph, LoweredNode, Node, Rewrite, Rewritten, StandsFor
from workbench.ir.rewrites import PASS, PATTERN, captured_behind

Step: TypeAlias = "Callable[..., object] | Rewrite"
"""A graph pass, a pattern, or the saved result of one in a loaded journey."""


def is_pattern(step: Step) -> bool:
    return step.kind == PATTERN if isinstance(step, Rewrite) else isinstance(step, Pattern)


def rewritten(captured: AtenGraph, steps: Mapping[str, Step], off: Collection[str]) -> Rewritten:
    """Applies all steps in order, except those in `off`. A graph with breaks stays unchanged: a node must not move from
    one part to another."""
    graph, done = captured, list[Rewrite]()
    broken = any(node.op == BREAK for node in captured.nodes)
    as_in_file = True
    for name, step in steps.items():
        wanted = name not in off and not broken
        if isinstance(step, Rewrite):
            if as_in_file and step.on == wanted:
                made = step
            else:
                as_in_file = False
                made = _anew(name, step, graph, done, wanted)
        else:
            made = _done(name, step, graph, done, wanted)
        done.append(made)
        graph = made.graph or graph
    return Rewritten(captured, tuple(done))


def _anew(name: str, kept: Rewrite, graph: AtenGraph, done: list[Rewrite], wanted: bool) -> Rewrite:
    """Repeats a step of a loaded journey whose graph differs from the file's, or that is turned on now, with the pass
    or pattern that is registered here under its name."""
    if not wanted:
        return replace(kept, on=False, graph=None, stands_for=(), matches=(), nearest=None)
    registered = REWRITES.now().get(name)
    if registered is None:
        what = "graph pass" if kept.kind == PASS else "pattern"
        raise RegistrationGone(
            f"the {what} {name!r} must run anew on a loaded journey, since another one before it is off or on now, or "
            f"it was off itself; but no {what} of this name is registered here. It was written at {kept.place}. "
            "Register it, or leave fusion= as it is in the file"
        )
    return _done(name, registered, graph, done, wanted)


def _done(name: str, step: Callable[..., object], graph: AtenGraph, before: list[Rewrite], wanted: bool) -> Rewrite:
    told = Rewrite(name, PATTERN if is_pattern(step) else PASS, Owner.of(step).place, wanted)
    if not wanted:
        return told
    if isinstance(step, Pattern):
        found = applied(step, graph)
        if not found.matches:
            return replace(told, nearest=found.nearest)
        behind = captured_behind(before)
        for match in found.matches:
            behind[match.node] = tuple(captured for node in match.nodes for captured in behind.get(node, (node,)))
        return replace(told, graph=found.graph, matches=found.matches, stands_for=_stands_for(found.graph, behind))
    made = passed(name, step, graph)  # pyright: ignore[reportArgumentType] - its result is checked
    if made is graph:
        return told
    return replace(told, graph=made, stands_for=_stands_for(made, taken_over(graph, made, captured_behind(before))))


def _stands_for(graph: AtenGraph, behind: Mapping[str, tuple[str, ...]]) -> tuple[StandsFor, ...]:
    alive = {node.name for node in graph.nodes}
    return tuple(
        StandsFor(node, tuple(dict.fromkeys(captured)))
        for node, captured in behind.items()
        if node in alive and captured != (node,)
    )


Behind: TypeAlias = Mapping[str, tuple[str, ...]]
"""For each node the captured nodes behind it, unless these are the node alone."""


def taken_over(before: AtenGraph, after: AtenGraph, behind: Behind) -> dict[str, tuple[str, ...]]:
    """Returns the captured nodes behind the nodes of `after`. Connected nodes that are gone or changed form a part; a
    new or changed node in the place of a part stands for all its nodes that are gone. A node that only reads other
    values than before stands for no other node."""
    old, new = {node.name: node for node in before.nodes}, {node.name: node for node in after.nodes}
    of = {name: name if name in old else node.origin.node for name, node in new.items()}
    heads = [name for name, node in new.items() if name not in old or not _same_but_for_values(old[name], node)]
    gone = [name for name in old if name not in new]
    parts = _parts(before.nodes, {*gone, *(of[name] for name in heads)})
    found = {name: behind.get(of[name], (of[name],)) for name in new if name in behind or of[name] != name}
    order = {name: place for place, name in enumerate(old)}
    for name in heads:
        together = sorted({of[name], *(each for each in gone if parts[each] == parts[of[name]])}, key=order.__getitem__)
        found[name] = tuple(captured for each in together for captured in behind.get(each, (each,)))
    return found


def _same_but_for_values(old: Node, new: Node) -> bool:
    if (old.op, old.literals, old.results) != (new.op, new.literals, new.results):
        return False
    return (len(old.args), old.kwargs.keys()) == (len(new.args), new.kwargs.keys())


def _parts(nodes: tuple[Node, ...], among: set[str]) -> dict[str, str]:
    """For each node in `among` the name of its part, which all nodes of `among` connected with it by operands share."""
    maker = {value: node.name for node in nodes for value in node.results}
    part = {name: name for name in among}
    for node in nodes:
        if node.name not in among:
            continue
        linked = {part[maker[value]] for value in node.operands if maker.get(value) in among}
        for name, of in part.items():
            if of in linked:
                part[name] = part[node.name]
    return part


def with_origins(lowered: KernelGraph, made: Rewritten) -> KernelGraph:
    """Returns the lowered graph with the captured nodes behind its nodes, and with the record of all passes and
    patterns."""
    if not made.rewrites:
        return lowered
    behind = captured_behind(made.rewrites)
    order = {node.name: place for place, node in enumerate(made.captured.nodes)}
    op_of = {node.name: node.op for node in made.graph.nodes}
    by_pattern = {match.node: each.name for each in made.rewrites for match in each.matches}
    merged: dict[str, dict[str, None]] = {}

    def told(item: LoweredNode) -> LoweredNode:
        parents = {each for name in lowered.together(item.parent) for each in behind.get(name, (name,))}
        first, *others = sorted(parents, key=order.__getitem__)
        if others:
            merged.setdefault(first, {}).update(dict.fromkeys(others))
        rule = by_pattern.get(item.parent, "") if op_of[item.parent] == item.node.op else ""
        return replace(item, parent=first, rule=rule or item.rule)

    nodes = tuple(told(item) for item in lowered.nodes)
    return replace(
        lowered,
        captured=made.captured,
        nodes=nodes,
        rewrites=made.rewrites,
        merged={name: tuple(others) for name, others in merged.items()},
    )
