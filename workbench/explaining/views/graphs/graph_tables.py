"""The captured and the lowered graph as tables and text."""

from __future__ import annotations

import os
from collections.abc import Sequence

from workbench.explaining.views.graphs.rewrite_tables import rewrites_text
from workbench.explaining.views.graphs.titles import kernel_titles
from workbench.explaining.views.kernel_lists.storage_tables import layouts_text
from workbench.ground.basics.table import Cell, Table
from workbench.ir import HOST, PARTS, AtenGraph, Kernel, KernelGraph, Node, TensorType
from workbench.ir.value_names import written
from workbench.lowering.fusion_rules import SWITCHES


def nodes_table(graph: AtenGraph) -> Table:
    """One row an ATen call; in a training step with the part that it lies in."""
    parts = _parts([node.origin.part for node in graph.nodes])
    rows = tuple(
        (
            node.name,
            node.op,
            node.operands,
            *_shape_and_dtype(node, graph.types),
            node.origin.file,
            node.origin.line,
            *part,
        )
        for node, part in zip(graph.nodes, parts, strict=True)
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
    paths = {given.value: given.path for given in graph.inputs}

    def row(value: str) -> tuple[Cell, ...]:
        kind, maker = graph.types[value], makers.get(value)
        made = (maker.op, maker.origin.file, maker.origin.line) if maker else ("", "", None)
        return value, paths.get(value, ""), kind.shape, kind.dtype, kind.numel * kind.element_bytes, *made

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
    """One row a graph input of one of these kinds; all when none is named."""
    rows = tuple(
        (given.value, given.kind, given.path, graph.types[given.value].shape, graph.types[given.value].dtype)
        for given in graph.inputs
        if not kinds or given.kind in kinds
    )
    return Table(("value", "kind", "path", "shape", "dtype"), rows)


def lowered_table(lowered: KernelGraph) -> Table:
    """One row a node after decomposition, with its route and its kernel."""
    rows = tuple(
        (
            item.node.name,
            item.node.op,
            item.route,
            item.kernel,
            item.rule,
            item.node.origin.file,
            item.node.origin.line,
            item.parent,
        )
        for item in lowered.nodes
    )
    return Table(("node", "op", "route", "kernel", "rule", "file", "line", "parent"), rows)


def fusions_table(lowered: KernelGraph) -> Table:
    """One row an edge between two nodes, fused or refused, with the rule, whether that can be turned off, and the
    reason."""
    rows = tuple(
        (edge.producer, edge.consumer, edge.fused, edge.rule, edge.rule in SWITCHES, edge.reason)
        for edge in lowered.fusions
    )
    return Table(("producer", "consumer", "fused", "rule", "switch", "reason"), rows)


def kernels_table(lowered: KernelGraph) -> Table:
    """One row a kernel, in launch order."""
    titles, items = kernel_titles(lowered), {item.node.name: item for item in lowered.nodes}
    parts = _parts([part_of(lowered, kernel) for kernel in lowered.kernels])
    rows = tuple(
        (
            kernel.name,
            titles[kernel.name],
            kernel.kind,
            tuple(items[name].node.op for name in kernel.nodes),
            tuple(str(lowered.types[value]) for value in kernel.inputs),
            tuple(str(lowered.types[value]) for value in kernel.outputs),
            *part,
        )
        for kernel, part in zip(lowered.kernels, parts, strict=True)
    )
    return Table(("kernel", "title", "kind", "ops", "inputs", "outputs", *_headed(parts)), rows)


def graph_text(graph: AtenGraph) -> str:
    """The graph as a listing: inputs, one call a line with its type and its line of Python, results.

    A training step has the name of each part above its calls, and what is kept between them.
    """
    head = [f"{given.path}: {graph.types[given.value]}" for given in graph.inputs]
    lines = [f"{graph.name}({', '.join(head)})    captured by {graph.capture}"]
    calls = [(_call(node), _types(node, graph.types), place(node)) for node in graph.nodes]
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
    """The kernels with their nodes, then what was not fused and why."""
    lines: list[str] = []
    members = {
        kernel.name: [item for item in lowered.nodes if item.kernel == kernel.name] for kernel in lowered.kernels
    }
    for kernel in lowered.kernels:
        given = ", ".join(f"{value}: {lowered.types[value]}" for value in kernel.inputs)
        made = ", ".join(f"{value}: {lowered.types[value]}" for value in kernel.outputs)
        part = part_of(lowered, kernel)
        lines.append(f"kernel {kernel.name} ({kernel.kind}{f', {part}' if part else ''})  {given} -> {made}")
        rows = tuple((m.node.name, m.node.op, m.route, m.rule, m.parent) for m in members[kernel.name])
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
    given = [written(arg) for arg in node.args]
    given += [f"{name}={written(arg)}" for name, arg in node.kwargs.items()]
    return f"{', '.join(node.results)} = {node.op}({', '.join(given)})"


def _types(node: Node, types: dict[str, TensorType]) -> str:
    return ", ".join(str(types[value]) for value in node.results if value in types)


def _shape_and_dtype(node: Node, types: dict[str, TensorType]) -> tuple[Cell, Cell]:
    """Shape and dtype of the one result, or tuples of them when there are several."""
    made = [types[value] for value in node.results if value in types]
    if len(made) == 1:
        return made[0].shape, made[0].dtype
    return tuple(kind.shape for kind in made), tuple(kind.dtype for kind in made)
