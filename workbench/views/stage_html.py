"""The five stages as HTML: pictures, tables and code in one place, made from the records alone."""

from __future__ import annotations

from collections.abc import Mapping

from simulator import Trace
from simulator.program import Access
from simulator.spans import Via
from workbench.ir import AtenGraph, Kernel, KernelGraph, KernelModule, ScheduledKernel, ScheduledProgram, Snapshot
from workbench.views import graph as graphs
from workbench.views import kernels, markup, timeline
from workbench.views.gantt import Gantt
from workbench.views.highlight import changed_lines, code, diff
from workbench.views.kernels import Selected
from workbench.views.placement import crossed_text, placement_table
from workbench.views.residence import residence_table
from workbench.views.style import HUES, colour_of_step
from workbench.views.svg_gantt import gantt_svg
from workbench.views.svg_graph import captured_svg, lowered_svg, route_colour
from workbench.views.table import Table

_MANY = 8
"""Kernels up to which every pass is shown with what it changed."""

_NO_LINES: Selected = lambda kernel: ()  # noqa: E731


def captured(graph: AtenGraph, sources: Mapping[str, str] | None = None) -> str:
    """The graph, its calls and what it takes."""
    count = len(graph.nodes)
    head = (
        f"<p><b>{markup.escape(graph.name)}</b>: {count} ATen call{'s' * (count != 1)}, captured by {graph.capture}</p>"
    )
    calls = graphs.nodes_table(graph)
    if sources is not None:
        lines = [sources.get(node.origin.place, "").strip() for node in graph.nodes]
        calls = Table((*calls.columns, "python"), tuple((*r, line) for r, line in zip(calls.rows, lines, strict=True)))
    inputs = markup.details("inputs, parameters, buffers", markup.table(graphs.inputs_table(graph)), note=_count(graph))
    return head + captured_svg(graph) + markup.table(_short_files(calls)) + inputs


def _count(graph: AtenGraph) -> str:
    kinds = [given.kind for given in graph.inputs]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))


def _short_files(table: Table) -> Table:
    """Files without their folders: the whole paths are in `.table`."""
    at = table.columns.index("file")
    rows = tuple(
        (*row[:at], str(row[at] or "").replace("\\", "/").rpartition("/")[2], *row[at + 1 :]) for row in table.rows
    )
    return Table(table.columns, rows)


def lowered(graph: KernelGraph) -> str:
    """The kernels with their nodes by route, and every decision about fusing them."""
    routes = [item.route for item in graph.nodes]
    counts = {route: routes.count(route) for route in dict.fromkeys(routes)}
    told = markup.legend([(f"{route} ({count})", route_colour(route)) for route, count in counts.items()])
    refused = sum(not fusion.fused for fusion in graph.fusions)
    note = f"{len(graph.fusions) - refused} fused, {refused} refused"
    fusions = markup.table(graphs.fusions_table(graph), wide=("reason",))
    return (
        lowered_svg(graph)
        + told
        + (
            '<p class="soft">A dashed arrow is an edge that was not fused; it says why when pointed at.</p>'
            if refused
            else ""
        )
        + markup.table(graphs.kernels_table(graph), wide=("ops", "inputs"))
        + markup.details("fusion decisions", fusions, note=note, opened=0 < len(graph.fusions) <= 8)
        + markup.details(
            "nodes after decomposition", markup.table(_short_files(graphs.lowered_table(graph))), note=str(len(routes))
        )
    )


def rendered(modules: tuple[KernelModule, ...], selected: Selected = _NO_LINES, hosts: tuple[Kernel, ...] = ()) -> str:
    """Each kernel's MLIR with the origins of its lines; of steps on the host there is none."""
    few = len(modules) <= 2
    parts: list[str] = []
    for module in modules:
        body, opened = rendered_kernel(module, selected), few or bool(selected(module.kernel))
        parts.append(markup.details(module.kernel, body, note=_lines_of(module.mlir), opened=opened))
    for step in hosts:
        parts.append(f"<p>{markup.escape(step.name)}: no MLIR, PyTorch computes it on the host</p>")
    return "".join(parts)


def rendered_kernel(module: KernelModule, selected: Selected = _NO_LINES) -> str:
    origins = kernels.rendered_line_origins(module)
    body = _nodes_legend(module.origins) + code(
        module.mlir, origins=origins, nodes=module.origins, selected=selected(module.kernel)
    )
    gone = "".join(f"<p>{markup.escape(each.node)}: {markup.escape(each.reason)}</p>" for each in module.absorbed)
    return body + (markup.details("absorbed", gone, note=str(len(module.absorbed))) if gone else "")


def _nodes_legend(nodes: tuple[str, ...]) -> str:
    return markup.legend([(name, f"var(--h{number % len(HUES)})") for number, name in enumerate(nodes)])


def _lines_of(text: str) -> str:
    return f"{len(text.strip().splitlines())} lines"


def scheduled(
    program: ScheduledProgram, rendered: tuple[KernelModule, ...] = (), selected: Selected = _NO_LINES
) -> str:
    """How each kernel is tiled, what became of it pass by pass, and the result."""
    before = {module.kernel: module.mlir for module in rendered}
    few = len(program.kernels) <= 2
    told = kernels.scheduled_table(program)
    parts = [markup.table(told.pick(*(name for name in told.columns if name != "cores")), wide=("reason",))]
    if program.residence:
        shown, kept = residence_table(program), sum(each.resident for each in program.residence)
        note = f"{kept} of {len(shown.rows)} tensors stay"
        parts.append(markup.details("common memory", markup.table(shown, wide=("why",)), note=note))
    for kernel in program.kernels:
        many = len(program.kernels) > _MANY
        body = scheduled_kernel(kernel, before.get(kernel.kernel), selected, diffs=not many)
        note = f"{len(kernel.program)} instructions, {len(kernel.passes)} passes"
        note += f"; {kernel.mapping.spread}" if kernel.mapping.spread else ""
        parts.append(markup.details(kernel.kernel, body, note=note, opened=few or bool(selected(kernel.kernel))))
    for step in program.hosts:
        parts.append(f"<p>{markup.escape(step.kernel)}: {markup.escape(kernels.host_text(step))}</p>")
    return "".join(parts)


def scheduled_kernel(
    kernel: ScheduledKernel, before: str | None = None, selected: Selected = _NO_LINES, *, diffs: bool = True
) -> str:
    """One kernel. Without `diffs` its passes are a table: with many kernels the diffs would be most of the page."""
    program = kernel.program
    names = program.origin_names
    figures = {
        "instructions": f"{len(program):,}",
        "bytes read": f"{kernels.dram_bytes(program, Access.READ):,}",
        "bytes written": f"{kernels.dram_bytes(program, Access.WRITE):,}",
        "scratchpad bytes": f"{program.scratchpad_bytes:,}",
    }
    mapping, counts = kernels.mapping_text(kernel.mapping), kernels.instruction_counts(program)
    spread = f"<br>cores: {markup.escape(kernel.mapping.spread)}" if kernel.mapping.spread else ""
    head = f'<p>{markup.escape(mapping)}{spread}<br><span class="soft">{markup.escape(counts)}</span></p>'
    origins = kernels.scheduled_line_origins(kernel)
    body = _nodes_legend(names) + code(kernel.mlir, origins=origins, nodes=names, selected=selected(kernel.kernel))
    shown = passes(kernel.passes, before) if diffs else markup.table(kernels.passes_table(kernel), wide=("pipeline",))
    return (
        head
        + markup.cards(figures)
        + markup.details("scheduled MLIR", body, note=_lines_of(kernel.mlir), opened=True)
        + markup.details("passes", shown, note=str(len(kernel.passes)))
        + markup.details("transform script", code(kernel.schedule), note=_lines_of(kernel.schedule))
        + markup.details("buffers", markup.table(kernels.buffers_table(program)), note=str(len(program.buffers)))
    )


def passes(steps: tuple[Snapshot, ...], before: str | None) -> str:
    """A step after the other, each with what it changed and the pipeline that reproduces it."""
    parts: list[str] = []
    for step in steps:
        added, removed = changed_lines(before, step.mlir) if before is not None else (0, 0)
        change = f"+{added} -{removed}" if added or removed else "nothing changed" if before is not None else "first"
        note = f"{change} · {step.ops_before} → {step.ops_after} ops · {step.seconds * 1e3:.1f} ms"
        pipeline = f'<p class="soft mono">{markup.escape(step.pipeline)}</p>'
        shown = diff(before, step.mlir) if before is not None else code(step.mlir)
        parts.append(markup.details(step.name, pipeline + shown, note=note))
        before = step.mlir
    return "".join(parts)


def simulated(trace: Trace, view: Gantt) -> str:
    """The timeline, where the time went, and what each unit waited for."""
    told = timeline.stats(trace)
    common = told["common_read_bytes"] + told["common_write_bytes"]
    left_out = int((trace.via == Via.SKIPPED).sum())
    figures = {
        "cycles": f"{told['cycles']:,}",
        f"µs at {trace.machine.clock_mhz:g} MHz": f"{told['time_us']:,.2f}",
        "DRAM bytes read": f"{told['dram_read_bytes']:,}",
        "DRAM bytes written": f"{told['dram_write_bytes']:,}",
        **({"common memory bytes": f"{common:,}"} if common else {}),
        **({"instructions on zeros skipped": f"{left_out:,}"} if left_out else {}),
        "of DRAM peak": f"{told['dram_share_of_peak']:.0%}",
        "of MAC peak": f"{told['macs_share_of_peak']:.0%}",
        "instructions": f"{told['instructions']:,}",
    }
    return (
        f"<p>on <b>{markup.escape(trace.machine.label)}</b></p>"
        + (f"<p>{crossed_text(trace)}</p>" if trace.machine.chiplets > 1 else "")
        + markup.cards(figures)
        + gantt_svg(view)
        + "<h3>Where the makespan went, along the critical path</h3>"
        + _waterfall(trace)
        + "<h3>What each unit did and waited for</h3>"
        + _stalls(trace)
        + _energy(trace)
        + markup.details("kernels", _kernels(trace), note=str(len(set(trace.kernels))))
        + _filled("memory channels", timeline.memory(trace))
        + _filled("links", timeline.links(trace))
        + _filled("tensors on chiplets", placement_table(trace, {}))
    )


def _kernels(trace: Trace) -> str:
    return markup.table(timeline.by_kernel(trace)) + f'<p class="soft">{markup.escape(timeline.sum_text(trace))}</p>'


def _filled(title: str, found: Table) -> str:
    """A table that is told if it has rows."""
    return markup.details(title, markup.table(found), note=str(len(found.rows))) if found.rows else ""


def _energy(trace: Trace) -> str:
    shown = timeline.energy_by_unit(trace)
    whole = sum(spent.pj for spent in trace.energy())
    return markup.details("energy", markup.table(shown), note=f"{whole / 1e6:,.{1 if whole < 1e8 else 0}f} µJ")


def _waterfall(trace: Trace) -> str:
    rows = trace.waterfall()
    whole = max(trace.makespan, 1)
    return markup.bars(
        (
            what.replace("_", " "),
            [(cycles / whole, colour_of_step(what), what)],
            f"{cycles:,} cycles, {cycles / whole:.0%} of the run",
        )
        for what, cycles in rows
    )


_NO_WAITS = {"host": "var(--k-HOST)", "finished": "var(--line)"}
"""What a unit's time goes by in which it waits for nothing: colours that stand off the ground."""


def _stalls(trace: Trace) -> str:
    """A bar a unit that works: its work in front, its idle time by cause behind."""
    rows: list[tuple[str, list[tuple[float, str, str]], str]] = []
    whole = max(trace.makespan, 1)
    used: dict[str, str] = {}
    for row in trace.stalls():
        busy = int(row["busy"])
        if not busy:
            continue
        parts = [(busy / whole, "var(--busy)", f"busy {busy:,}")]
        for name, cycles in row.items():
            if name not in ("unit", "busy", "total") and cycles:
                colour = _NO_WAITS.get(name, f"var(--c-{name})")
                used[name.replace("_", " ")] = colour
                parts.append((int(cycles) / whole, colour, f"{name.replace('_', ' ')} {cycles:,}"))
        rows.append((str(row["unit"]), parts, f"busy {busy / whole:.0%} of the run"))
    return markup.bars(rows) + markup.legend([("busy", "var(--busy)"), *used.items()])
