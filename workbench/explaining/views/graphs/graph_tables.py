"""The captured and the lowered graph, and the changes of graph passes and patterns, as tables and text."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from workbench.explaining.views.graphs.titles import kernel_titles
from workbench.explaining.views.kernel_lists.memory_tables import layouts_text
from workbench.ground.basics.table import Cell, Table
from workbench.ir import HOST, PARTS, AtenGraph, Kernel, KernelGraph, LoweredNode, Node, Rewrite, TensorType
from workbench.ir.rewrites import PATTERN
from workbench.ir.value_names import written
from workbench.lowering.fusion_rules import SWITCHES

_CHANGES = ("removed", "added", "changed")
_NONE = "no graph pass and no pattern was registered when it was traced"


def nodes_table(graph: AtenGraph) -> Table:
    """One row an ATen call; in a training step with the part that it lies in."""
    parts = _parts([node.origin.part for node in graph.nodes])
    kinds = (_shape_and_dtype(node, graph.types) for node in graph.nodes)
    rows = tuple(
        (node.name, node.op, node.operands, *kind, node.origin.file, node.origin.line, *part)
        for node, kind, part in zip(graph.nodes, kinds, parts, strict=True)
    )
    return Table(("node", "op", "inputs", "shape", "dtype", "file", "line", *_headed(parts)), rows)


def part_of(lowered: KernelGraph, kernel: Kernel) -> str:
    """The part of a training step that a kernel ends in: the optimizer's where it fuses with the backward pass."""
    return lowered.node(kernel.nodes[-1]).node.origin.part


def _parts(parts: Sequence[str]) -> list[tuple[str, ...]]:
    """A cell for each row with its part of a training step; none where nothing is trained."""
    return [(part,) if any(parts) else () for part in parts]


def _headed(parts: list[tuple[str, ...]]) -> tuple[str, ...]:
    return ("part",) if any(parts) else ()


def saved_table(graph: AtenGraph) -> Table:
    """One row a tensor that is kept from the forward to the backward pass, with the call that makes it, or the path of
    an input."""
    makers = {value: node for node in graph.nodes for value in node.results}
    paths = graph.paths

    def row(value: str) -> tuple[Cell, ...]:
        kind, maker = graph.types[value], makers.get(value)
        maker_cells = (maker.op, maker.origin.file, maker.origin.line) if maker else ("", "", None)
        return value, paths.get(value, ""), kind.shape, kind.dtype, kind.numel * kind.element_bytes, *maker_cells

    rows = tuple(map(row, graph.saved))
    return Table(("value", "path", "shape", "dtype", "bytes", "op", "file", "line"), rows)


def counted_parts(lowered: KernelGraph) -> str:
    """`forward 3 kernels, backward 5, step 2`; empty where nothing is trained."""
    found = [part_of(lowered, kernel) for kernel in lowered.kernels if kernel.kind != HOST]
    counts = [(part, found.count(part)) for part in PARTS]
    if not any(count for _, count in counts):
        return ""
    texts = [f"{part} {count}" for part, count in counts]
    return ", ".join([f"{texts[0]} kernels", *texts[1:]])


def inputs_table(graph: AtenGraph, *kinds: str) -> Table:
    """One row a graph input of one of these kinds; all inputs if no kind is named."""
    rows = tuple(
        (item.value, item.kind, item.path, graph.types[item.value].shape, graph.types[item.value].dtype)
        for item in graph.inputs
        if not kinds or item.kind in kinds
    )
    return Table(("value", "kind", "path", "shape", "dtype"), rows)


def lowered_table(lowered: KernelGraph) -> Table:
    """One row a node after decomposition, with its route and its kernel."""

    def row(item: LoweredNode) -> tuple[Cell, ...]:
        node, origin = item.node, item.node.origin
        return node.name, node.op, item.route, item.kernel, item.rule, origin.file, origin.line, item.parent

    columns = ("node", "op", "route", "kernel", "rule", "file", "line", "parent")
    return Table(columns, tuple(map(row, lowered.nodes)))


def fusions_table(lowered: KernelGraph) -> Table:
    """One row an edge between two nodes, fused or refused, with the rule, its switch if it has one, and the reason."""
    rows = tuple(
        (edge.producer, edge.consumer, edge.fused, edge.rule, edge.rule in SWITCHES, edge.reason)
        for edge in lowered.fusions
    )
    return Table(("producer", "consumer", "fused", "rule", "switch", "reason"), rows)


def kernels_table(lowered: KernelGraph) -> Table:
    """One row a kernel, in launch order."""
    titles, items = kernel_titles(lowered), {item.node.name: item for item in lowered.nodes}
    parts = _parts([part_of(lowered, kernel) for kernel in lowered.kernels])
    rows: list[tuple[Cell, ...]] = []
    for kernel, part in zip(lowered.kernels, parts, strict=True):
        ops = tuple(items[name].node.op for name in kernel.nodes)
        types = (tuple(str(lowered.types[value]) for value in each) for each in (kernel.inputs, kernel.outputs))
        rows.append((kernel.name, titles[kernel.name], kernel.kind, ops, *types, *part))
    return Table(("kernel", "title", "kind", "ops", "inputs", "outputs", *_headed(parts)), tuple(rows))


def graph_text(graph: AtenGraph) -> str:
    """The graph as a listing: inputs, one call a line with its type and its line of Python, results.

    A training step has the name of each part above its calls, and the tensors that are kept for the backward pass.
    """
    head = [f"{item.path}: {graph.types[item.value]}" for item in graph.inputs]
    lines = [f"{graph.name}({', '.join(head)})    captured by {graph.capture}"]
    calls = [(_call(node), types_text(node, graph.types), place(node)) for node in graph.nodes]
    wide = max((min(len(call), 72) for call, _, _ in calls), default=0)
    typed = max((len(kind) for _, kind, _ in calls), default=0)
    part = ""
    for node, (call, kind, where) in zip(graph.nodes, calls, strict=True):
        if node.origin.part != part:
            part = node.origin.part
            lines.append(f" {part}:")
        lines.append(f"  {call:<{wide}}  {kind:<{typed}}  {where}".rstrip())
    if graph.saved:
        lines.append(f" kept for the backward pass: {', '.join(graph.saved)}")
    lines += [f"  {change.target} becomes {change.value}" for change in graph.mutations]
    return "\n".join([*lines, f"  return {', '.join(graph.outputs)}"])


def lowered_text(lowered: KernelGraph) -> str:
    """The kernels with their nodes, then the refused fusions and their reasons."""
    lines: list[str] = []
    for kernel in lowered.kernels:
        inputs, outputs = (
            ", ".join(f"{value}: {lowered.types[value]}" for value in each) for each in (kernel.inputs, kernel.outputs)
        )
        members = (item for item in lowered.nodes if item.kernel == kernel.name)
        part = part_of(lowered, kernel)
        lines.append(f"kernel {kernel.name} ({kernel.kind}{f', {part}' if part else ''})  {inputs} -> {outputs}")
        rows = tuple((item.node.name, item.node.op, item.route, item.rule, item.parent) for item in members)
        lines.append(Table(("node", "op", "route", "rule", "from"), rows).text(indent="  "))
    if lowered.views:
        lines.append("views (no kernel, no bytes): " + ", ".join(f"{v.value} of {v.base}" for v in lowered.views))
    if lowered.layouts:
        lines.append(layouts_text(lowered))
    if lowered.rewrites:
        lines += ["graph passes and patterns:", *(f"  {line}" for line in rewrites_text(lowered))]
    refused = [edge for edge in lowered.fusions if not edge.fused]
    if refused:
        lines.append("not fused:")
        lines += [f"  {edge.producer} -> {edge.consumer}: {edge.reason} ({edge.rule})" for edge in refused]
    return "\n".join(lines)


def place(node: Node) -> str:
    """`file.py:12`, without the folder."""
    origin = node.origin
    return f"{os.path.basename(origin.file)}:{origin.line}" if origin.file else ""


def _call(node: Node) -> str:
    arguments = [written(arg) for arg in node.args]
    arguments += [f"{name}={written(arg)}" for name, arg in node.kwargs.items()]
    return f"{', '.join(node.results)} = {node.op}({', '.join(arguments)})"


def types_text(node: Node, types: dict[str, TensorType]) -> str:
    """The types of a node's results."""
    return ", ".join(str(types[value]) for value in node.results if value in types)


def _shape_and_dtype(node: Node, types: dict[str, TensorType]) -> tuple[Cell, Cell]:
    """Shape and dtype of a node's result; tuples of both if there are several results."""
    kinds = [types[value] for value in node.results if value in types]
    if len(kinds) == 1:
        return kinds[0].shape, kinds[0].dtype
    return tuple(kind.shape for kind in kinds), tuple(kind.dtype for kind in kinds)


def rewrites_table(lowered: KernelGraph) -> Table:
    """One row a pass or pattern, in the order in which they ran."""
    rows: list[tuple[Cell, ...]] = []
    for each, found in _changes(lowered):
        counts = Counter(change for change, _ in found)
        matches = len(each.matches) if each.kind == PATTERN and each.on else None
        rows.append((each.name, each.kind, each.on, matches, *(counts[what] for what in _CHANGES), each.place))
    return Table(("name", "kind", "on", "matches", *_CHANGES, "place"), tuple(rows), _NONE)


def changes_table(lowered: KernelGraph) -> Table:
    """One row a node that a pass or pattern removed, added or changed, with the captured nodes behind it."""
    rows: list[tuple[Cell, ...]] = []
    before = lowered.captured
    for each, found in _changes(lowered):
        behind = {part.node: part.captured for part in each.stands_for}
        for change, node in found:
            graph = before if change == "removed" or each.graph is None else each.graph
            captured = () if change == "removed" else behind.get(node.name, (node.name,))
            cells = each.name, change, node.name, node.op, node.operands, types_text(node, graph.types)
            rows.append((*cells, captured, node.origin.file, node.origin.line))
        before = each.graph or before
    why = "no graph pass and no pattern changed anything" if lowered.rewrites else _NONE
    return Table(("name", "change", "node", "op", "inputs", "types", "captured", "file", "line"), tuple(rows), why)


def patterns_table(lowered: KernelGraph) -> Table:
    """One row a match, and one for each pattern without a match, with its nearest match."""
    rows = tuple(row for each in lowered.rewrites if each.kind == PATTERN for row in _pattern_rows(each))
    columns = ("pattern", "matched", "node", "nodes", "partners", "wanted", "found", "where", "reason")
    return Table(columns, rows, "no pattern was registered when it was traced")


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
            changes = [f"{change} {node.name}" for change, node in found]
            lines.append(f"{what}: {', '.join(changes) or 'changed nothing'}")
    return lines


def near_text(each: Rewrite) -> str:
    """Says in one sentence why a pattern has no match."""
    near = each.nearest
    if near is None:
        return "no match: no node calls any of its ops"
    start = f"no match: {near.matched} of its {near.of} nodes have a partner"
    where = f", {near.found_at}" if near.found_at else ""
    if near.matched == near.of:
        return f"{start}, but {near.reason} (for {near.wanted}, {near.wanted_at}, there is {near.found}{where})"
    return f"{start}; for {near.wanted} ({near.wanted_at}) there is {near.found}{where}: {near.reason}"


def _changes(lowered: KernelGraph) -> Iterator[tuple[Rewrite, list[tuple[str, Node]]]]:
    """Each pass or pattern, with the nodes that it removed, added and changed."""
    before = lowered.captured
    for each in lowered.rewrites:
        after = each.graph or before
        old, new = {node.name: node for node in before.nodes}, {node.name: node for node in after.nodes}
        found = [("removed", node) for name, node in old.items() if name not in new]
        differ = (node for name, node in new.items() if old.get(name) != node)
        yield each, [*found, *(("changed" if node.name in old else "added", node) for node in differ)]
        before = after
