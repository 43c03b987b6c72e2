"""What graph passes and patterns changed, as tables and text."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.ground.basics.table import Cell, Table
from workbench.ir import AtenGraph, KernelGraph, Node, Rewrite
from workbench.ir.rewrites import PATTERN


def rewrites_table(lowered: KernelGraph) -> Table:
    """One row a pass or pattern, in the order in which they ran."""
    rows = tuple(
        (
            each.name,
            each.kind,
            each.on,
            len(each.matches) if each.kind == PATTERN and each.on else None,
            *(sum(1 for change, _ in found if change == what) for what in ("removed", "added", "changed")),
            each.place,
        )
        for each, found in _changes(lowered)
    )
    return Table(("name", "kind", "on", "matches", "removed", "added", "changed", "place"), rows, _NONE)


def changes_table(lowered: KernelGraph) -> Table:
    """One row a node that a pass or pattern removed, added or changed, with the captured nodes behind it."""
    rows: list[tuple[Cell, ...]] = []
    before = lowered.captured
    for each, found in _changes(lowered):
        behind = {part.node: part.captured for part in each.stands_for}
        for change, node in found:
            graph = before if change == "removed" or each.graph is None else each.graph
            rows.append(
                (
                    *(each.name, change, node.name, node.op, node.operands, _types(node, graph)),
                    () if change == "removed" else behind.get(node.name, (node.name,)),
                    *(node.origin.file, node.origin.line),
                )
            )
        before = each.graph or before
    why = "no graph pass and no pattern changed anything" if lowered.rewrites else _NONE
    return Table(("name", "change", "node", "op", "inputs", "types", "captured", "file", "line"), tuple(rows), why)


def patterns_table(lowered: KernelGraph) -> Table:
    """One row a match, and one for each pattern without a match, with the nearest that it came to one."""
    rows = tuple(row for each in lowered.rewrites if each.kind == PATTERN for row in _pattern_rows(each))
    return Table(
        ("pattern", "matched", "node", "nodes", "partners", "wanted", "found", "where", "reason"), rows, _NO_PATTERN
    )


_NONE = "no graph pass and no pattern was registered when it was traced"
_NO_PATTERN = "no pattern was registered when it was traced"


def _pattern_rows(each: Rewrite) -> Iterator[tuple[Cell, ...]]:
    for match in each.matches:
        count = len(match.nodes)
        yield each.name, True, match.node, match.nodes, f"{count} of {count}", "", "", "", ""
    if each.matches:
        return
    near = each.nearest
    if near is None:
        why = "no node calls any of its ops" if each.on else "it is turned off"
        yield each.name, False, "", (), "", "", "", "", why
    else:
        partners = f"{near.matched} of {near.of}"
        wanted = f"{near.wanted} at {near.wanted_at}"
        yield each.name, False, "", near.nodes, partners, wanted, near.found, near.found_at, near.reason


def rewrites_text(lowered: KernelGraph) -> list[str]:
    """A line a match, a pass, or a pattern without a match."""
    lines: list[str] = []
    for each, found in _changes(lowered):
        what = f"{each.kind} {each.name!r}"
        if not each.on:
            lines.append(f"{what} did not run")
        elif each.matches:
            lines += [f"{what}: {match.node} for {', '.join(match.nodes)}" for match in each.matches]
        elif each.kind == PATTERN:
            lines.append(f"{what}: {near_text(each)}")
        else:
            told = [f"{change} {node.name}" for change, node in found]
            lines.append(f"{what}: {', '.join(told) or 'changed nothing'}")
    return lines


def near_text(each: Rewrite) -> str:
    """Why a pattern has no match, in one sentence."""
    near = each.nearest
    if near is None:
        return "no match: no node calls any of its ops"
    told = f"no match: {near.matched} of its {near.of} nodes have a partner"
    where = f", {near.found_at}" if near.found_at else ""
    if near.matched == near.of:
        return f"{told}, but {near.reason} (for {near.wanted}, {near.wanted_at}, there is {near.found}{where})"
    return f"{told}; for {near.wanted} ({near.wanted_at}) there is {near.found}{where}: {near.reason}"


def _changes(lowered: KernelGraph) -> Iterator[tuple[Rewrite, list[tuple[str, Node]]]]:
    """Each pass or pattern, with the nodes that it removed, added and changed."""
    before = lowered.captured
    for each in lowered.rewrites:
        after = each.graph or before
        old, new = {node.name: node for node in before.nodes}, {node.name: node for node in after.nodes}
        found = [("removed", node) for name, node in old.items() if name not in new]
        for name, node in new.items():
            if name not in old:
                found.append(("added", node))
            elif old[name] != node:
                found.append(("changed", node))
        yield each, found
        before = after


def _types(node: Node, graph: AtenGraph) -> str:
    return ", ".join(str(graph.types[value]) for value in node.results if value in graph.types)
