"""The five stages as HTML: pictures, tables and code in one place, made from the records alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from markupsafe import Markup

from simulator import Trace
from simulator.analysis.critical_path import waterfall_of
from simulator.analysis.energy import energy_of
from simulator.analysis.stalls import stalls_of
from simulator.records.spans import Via
from simulator.tileprogram.program import Access
from workbench.explaining.views.graphs import graph_tables as graphs
from workbench.explaining.views.graphs.graph_pictures import MOST, captured_picture, lowered_picture, route_colour
from workbench.explaining.views.graphs.module_tree import captured_tree, lowered_tree, tree_html
from workbench.explaining.views.graphs.spent import Spent
from workbench.explaining.views.kernel_lists import kernel_tables as kernels
from workbench.explaining.views.kernel_lists.kernel_tables import Selected
from workbench.explaining.views.kernel_lists.memory_tables import (
    crossed_text,
    laid_anew,
    layouts_table,
    placement_table,
    residence_table,
)
from workbench.explaining.views.kernel_lists.pass_tables import Pass, steps_html, steps_of
from workbench.explaining.views.timelines import timeline
from workbench.explaining.views.timelines.gantt import Gantt
from workbench.explaining.views.timelines.gantt_picture import gantt_picture
from workbench.ground.basics import markup
from workbench.ground.basics.colours import HUES, colour_of_step
from workbench.ground.basics.highlight import code
from workbench.ground.basics.html_builder import NO_HTML, html, joined
from workbench.ground.basics.picture import Picture
from workbench.ground.basics.svg_painter import svg_of
from workbench.ground.basics.table import Table
from workbench.ir import AtenGraph, Kernel, KernelGraph, KernelModule, ScheduledKernel, ScheduledProgram
from workbench.ir.rewrites import PATTERN

_MANY = 8
"""Up to so many kernels, every pass is shown with its changes."""
_MOST_COMPARED = 500_000
"""Up to so many letters in the texts of all passes, every pass is shown with its changes: comparing more takes too
long."""

_PICTURE = 1200, 1000
"""The largest width and height of a picture in pixels: with the table below, it takes two screens at most."""
_FEW_ROWS = 16
"""Rows of a table that stands below a picture."""

_NO_TITLES: Mapping[str, str] = MappingProxyType({})
_NO_LINES: Selected = lambda kernel: ()  # noqa: E731


def captured(
    graph: AtenGraph,
    sources: Mapping[str, str] | None = None,
    lowered: KernelGraph | None = None,
    spent: Spent | None = None,
) -> Markup:
    """The graph, its calls and its inputs; with a run, the cycles spent on them."""
    count = len(graph.nodes)
    plural = "s" * (count != 1)
    head = html("<p><b>{}</b>: {} ATen call{}, captured by {}</p>", graph.name, count, plural, graph.capture)
    calls = graphs.nodes_table(graph)
    if sources is not None:
        lines = [sources.get(node.origin.place, "").strip() for node in graph.nodes]
        calls = Table((*calls.columns, "python"), tuple((*r, line) for r, line in zip(calls.rows, lines, strict=True)))
    inputs = markup.details("inputs, parameters, buffers", markup.table(graphs.inputs_table(graph)), note=_count(graph))
    picture, table = captured_picture(graph), markup.table(_short_files(calls))
    if _fits(picture) and count <= _FEW_ROWS:
        return head + svg_of(picture) + table + inputs
    tree = tree_html(captured_tree(graph, lowered, spent), "calls", spent)
    closed = markup.details("picture", svg_of(picture)) + markup.details("calls", table, note=str(count))
    return head + tree + closed + inputs


def _count(graph: AtenGraph) -> str:
    kinds = [item.kind for item in graph.inputs]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))


def _short_files(table: Table) -> Table:
    """Files without their folders: the whole paths are in `.table`."""
    at = table.columns.index("file")
    rows = tuple(
        (*row[:at], str(row[at] or "").replace("\\", "/").rpartition("/")[2], *row[at + 1 :]) for row in table.rows
    )
    return Table(table.columns, rows)


def lowered(graph: KernelGraph, spent: Spent | None = None) -> Markup:
    """The kernels with their nodes by route, and every decision about fusing them; with a run, the cycles spent."""
    routes = [item.route for item in graph.nodes]
    kernels = markup.table(graphs.kernels_table(graph), wide=("title", "ops", "inputs"))
    shown = _kernels_shown(graph, kernels, spent)
    refused = sum(not fusion.fused for fusion in graph.fusions)
    note = f"{len(graph.fusions) - refused} fused, {refused} refused"
    fusions = markup.table(graphs.fusions_table(graph), wide=("reason",))
    orders = markup.table(layouts_table(graph), wide=("why",)) if graph.layouts else NO_HTML
    return (
        shown
        + _rewrites(graph)
        + (markup.details("layout of tensors in DRAM", orders, note=laid_anew(graph)) if orders else "")
        + markup.details("fusion decisions", fusions, note=note, opened=0 < len(graph.fusions) <= 8)
        + markup.details(
            "nodes after decomposition", markup.table(_short_files(graphs.lowered_table(graph))), note=str(len(routes))
        )
    )


def _rewrites(graph: KernelGraph) -> Markup:
    """The changes of graph passes and patterns, if there are any."""
    if not graph.rewrites:
        return NO_HTML
    tables = markup.table(graphs.rewrites_table(graph), wide=("place",))
    if any(each.kind == PATTERN for each in graph.rewrites):
        tables += markup.table(graphs.patterns_table(graph), wide=("wanted", "found", "reason"))
    changes = graphs.changes_table(graph)
    return markup.details("graph passes and patterns", tables + markup.table(changes), note=str(len(graph.rewrites)))


def _kernels_shown(graph: KernelGraph, table: Markup, spent: Spent | None) -> Markup:
    """The kernels as a picture if it fits a screen, else as a tree, with a readable picture closed below."""
    picture = lowered_picture(graph) if len(graph.kernels) <= MOST else None
    count = len(graph.kernels)
    if picture and _fits(picture) and count <= _FEW_ROWS:
        return svg_of(picture) + _routes(graph) + table
    drawn = markup.details("picture", svg_of(picture) + _routes(graph)) if picture else ""
    tree = tree_html(lowered_tree(graph, spent), "kernels", spent)
    return tree + drawn + markup.details("kernels", table, note=str(count))


def _fits(picture: Picture) -> bool:
    return picture.width <= _PICTURE[0] and picture.height <= _PICTURE[1]


def _routes(graph: KernelGraph) -> Markup:
    """The legend of the picture's colours and dashed arrows."""
    routes = Counter(item.route for item in graph.nodes)
    legend = markup.legend([(f"{route} ({count})", f"var(--{route_colour(route)})") for route, count in routes.items()])
    if all(fusion.fused for fusion in graph.fusions):
        return legend
    dashed = "A dashed arrow is an edge that was not fused; point at it to see the reason."
    return legend + html('<p class="soft">{}</p>', dashed)


def rendered(
    modules: tuple[KernelModule, ...],
    selected: Selected = _NO_LINES,
    hosts: tuple[Kernel, ...] = (),
    titles: Mapping[str, str] = _NO_TITLES,
) -> Markup:
    """Each kernel's MLIR with the origins of its lines; steps on the host have none."""
    few = len(modules) <= 2
    parts: list[Markup] = []
    for module in modules:
        body, opened = rendered_kernel(module, selected), few or bool(selected(module.kernel))
        head, note = _headed(module.kernel, titles, _lines_of(module.mlir))
        parts.append(markup.details(head, body, note=note, opened=opened))
    hosted = (html("<p>{}: no MLIR, PyTorch computes it on the host</p>", step.name) for step in hosts)
    return joined([_listed(parts), *hosted])


def rendered_kernel(module: KernelModule, selected: Selected = _NO_LINES) -> Markup:
    origins = kernels.rendered_line_origins(module)
    body = _nodes_legend(module.origins) + code(
        module.mlir, origins=origins, nodes=module.origins, selected=selected(module.kernel)
    )
    gone = joined(html("<p>{}: {}</p>", each.node, each.reason) for each in module.absorbed)
    return body + (markup.details("absorbed", gone, note=str(len(module.absorbed))) if gone else "")


def _nodes_legend(nodes: tuple[str, ...]) -> Markup:
    return markup.legend([(name, f"var(--h{number % len(HUES)})") for number, name in enumerate(nodes)])


def _headed(kernel: str, titles: Mapping[str, str], note: str) -> tuple[str, str]:
    """The title above a kernel: its readable title if known, and its name in calls."""
    return (titles[kernel], f"{kernel} · {note}") if kernel in titles else (kernel, note)


def _listed(kernels: Sequence[Markup]) -> Markup:
    """Kernels one below the other; many are in a box that scrolls."""
    parts = joined(kernels)
    return html('<div class="many" tabindex="0">{parts}</div>', parts=parts) if len(kernels) > _MANY else parts


def _lines_of(text: str) -> str:
    return f"{len(text.strip().splitlines())} lines"


def scheduled(
    program: ScheduledProgram,
    rendered: tuple[KernelModule, ...] = (),
    selected: Selected = _NO_LINES,
    titles: Mapping[str, str] = _NO_TITLES,
) -> Markup:
    """Each kernel's tiling, its passes, and the result."""
    few = len(program.kernels) == 1  # two open ones are more than two screens
    tilings = kernels.scheduled_table(program)
    parts = [markup.table(tilings.pick(*(name for name in tilings.columns if name != "cores")), wide=("reason",))]
    if program.residence:
        shown, kept = residence_table(program), sum(each.resident for each in program.residence)
        note = f"{kept} of {len(shown.rows)} tensors stay"
        parts.append(markup.details("common memory", markup.table(shown, wide=("why",)), note=note))
    letters = sum(len(made.mlir) for kernel in program.kernels for made in kernel.passes)
    compared = len(program.kernels) <= _MANY and letters <= _MOST_COMPARED
    each = list[Markup]()
    for number, kernel in enumerate(program.kernels):
        steps = steps_of(kernel, rendered) if compared else number
        body = scheduled_kernel(kernel, steps, selected)
        note = f"{len(kernel.program)} instructions, {len(kernel.passes)} passes"
        note += f"; {kernel.mapping.spread}" if kernel.mapping.spread else ""
        head, note = _headed(kernel.kernel, titles, note)
        each.append(markup.details(head, body, note=note, opened=few or bool(selected(kernel.kernel))))
    hosted = (html("<p>{}: {}</p>", step.kernel, kernels.host_text(step)) for step in program.hosts)
    return joined([*parts, _listed(each), *hosted])


def scheduled_kernel(kernel: ScheduledKernel, steps: Sequence[Pass] | int, selected: Selected = _NO_LINES) -> Markup:
    """One kernel with its passes step by step. If `steps` is the kernel's number, the call that shows the passes stands
    in their place, since their changes would be most of a page of many kernels."""
    program = kernel.program
    names = program.origin_names
    figures = {
        "instructions": f"{len(program):,}",
        "bytes read": f"{kernels.dram_bytes(program, Access.READ):,}",
        "bytes written": f"{kernels.dram_bytes(program, Access.WRITE):,}",
        "scratchpad bytes": f"{program.scratchpad_bytes:,}",
    }
    mapping, counts = kernels.mapping_text(kernel.mapping), kernels.instruction_counts(program)
    spread = html("<br>cores: {}", kernel.mapping.spread) if kernel.mapping.spread else ""
    head = html('<p>{}{}<br><span class="soft">{}</span></p>', mapping, spread, counts)
    origins = kernels.scheduled_line_origins(kernel)
    body = _nodes_legend(names) + code(kernel.mlir, origins=origins, nodes=names, selected=selected(kernel.kernel))
    if isinstance(steps, int):
        shown = html("<p>What each changed: <code>j.scheduled.kernels[{}].passes</code></p>", steps)
    else:
        shown = steps_html(steps)
    return (
        head
        + markup.cards(figures)
        + markup.details("scheduled MLIR", body, note=_lines_of(kernel.mlir), opened=True)
        + markup.details("passes", shown, note=str(len(kernel.passes)))
        + markup.details("transform script", code(kernel.schedule), note=_lines_of(kernel.schedule))
        + markup.details("buffers", markup.table(kernels.buffers_table(program)), note=str(len(program.buffers)))
    )


def simulated(trace: Trace, view: Gantt, by_kernel: Table) -> Markup:
    """The timeline, where the time went, and the waits of each unit."""
    stats = timeline.stats(trace)
    common = stats["common_read_bytes"] + stats["common_write_bytes"]
    left_out = int((trace.via == Via.SKIPPED).sum())
    figures = {
        "cycles": f"{stats['cycles']:,}",
        f"µs at {trace.machine.clock_mhz:g} MHz": f"{stats['time_us']:,.2f}",
        "DRAM bytes read": f"{stats['dram_read_bytes']:,}",
        "DRAM bytes written": f"{stats['dram_write_bytes']:,}",
        **({"common memory bytes": f"{common:,}"} if common else {}),
        **({"instructions on zeros skipped": f"{left_out:,}"} if left_out else {}),
        "of DRAM peak rate": f"{stats['dram_share_of_peak']:.0%}",
        "of MAC peak rate": f"{stats['macs_share_of_peak']:.0%}",
        "instructions": f"{stats['instructions']:,}",
    }
    sums = html('<p class="soft">{}</p>', timeline.sum_text(trace))
    return (
        html("<p>on <b>{}</b></p>", trace.machine.label)
        + (html("<p>{}</p>", crossed_text(trace)) if trace.machine.chiplet.count > 1 else "")
        + markup.cards(figures)
        + svg_of(gantt_picture(view))
        + (_where_time_went(trace) if trace.makespan else "")
        + _energy(trace)
        + _filled("transfers", timeline.transfers(trace))
        + markup.details("kernels", markup.table(by_kernel) + sums, note=str(len(set(trace.kernels))))
        + _filled("memory channels", timeline.memory(trace))
        + _filled("links", timeline.links(trace))
        + _filled("tensors on chiplets", placement_table(trace, {}))
    )


def _where_time_went(trace: Trace) -> str:
    return (
        markup.heading("Where the makespan went, along the critical path")
        + _waterfall(trace)
        + markup.heading("What each unit did and waited for")
        + _stalls(trace)
    )


def _filled(title: str, found: Table) -> Markup:
    """A table, if it has rows."""
    return markup.details(title, markup.table(found), note=str(len(found.rows))) if found.rows else NO_HTML


def _energy(trace: Trace) -> Markup:
    shown = timeline.energy_by_unit(trace)
    whole = sum(spent.pj for spent in energy_of(trace))
    return markup.details("energy", markup.table(shown), note=f"{whole / 1e6:,.{1 if whole < 1e8 else 0}f} µJ")


def _waterfall(trace: Trace) -> str:
    whole = max(trace.makespan, 1)
    rows = ((what, cycles, cycles / whole) for what, cycles in waterfall_of(trace))
    return markup.bars(
        (what.replace("_", " "), [(share, colour_of_step(what), what)], f"{cycles:,} cycles, {share:.0%} of the run")
        for what, cycles, share in rows
    )


_NO_WAITS = {"host": "var(--k-HOST)", "finished": "var(--line)"}
"""The colours of a unit's time without waits, which differ from the background."""


def _stalls(trace: Trace) -> Markup:
    """A bar a unit that works: its work in front, its idle time by cause behind."""
    rows: list[tuple[str, list[tuple[float, str, str]], str]] = []
    whole, used = max(trace.makespan, 1), dict[str, str]()
    for row in stalls_of(trace):
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
