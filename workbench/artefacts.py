"""What each stage leaves behind: thin handles over records, all answering the same few questions.

Every handle has `.record` (the data itself, for programs), `.table` (a DataFrame), `.text()` and `.html()` (for
reading), and shows itself in a notebook. What only one stage has to tell stands beside them.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

from simulator import Trace
from simulator.program import Buffer, TileProgram
from workbench import views
from workbench.errors import MissingExtra, not_yet
from workbench.ir import (
    BREAK,
    AtenGraph,
    Kernel,
    KernelGraph,
    KernelModule,
    Mapping,
    ScheduledKernel,
    ScheduledProgram,
    Snapshot,
    TensorType,
)
from workbench.views.shown import Shown
from workbench.views.table import Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from simulator import Machine
    from workbench.ops.captured import CapturedProgram
    from workbench.views.gantt import Gantt
    from workbench.views.kernels import Selected
    from workbench.views.selection import Selection

R = TypeVar("R")


@dataclass(frozen=True, repr=False)
class Handle(Shown, Generic[R]):
    """The common face of the five artefacts."""

    record: R

    def _table(self) -> Table:
        raise NotImplementedError

    def text(self) -> str:
        """The artefact as text for a terminal."""
        raise NotImplementedError

    @property
    def table(self) -> pd.DataFrame:
        """The artefact as a DataFrame, a fresh one at each call."""
        return views.frame.frame(self._table())

    def body_html(self) -> str:
        """The artefact as HTML for a page that has the style sheet: `views.markup.page`."""
        raise NotImplementedError

    def html(self) -> str:
        """The artefact as HTML that needs nothing else: no script, no network."""
        return views.markup.fragment(self.body_html())

    @property
    def views(self) -> tuple[str, ...]:
        """Names of the views that were registered for this stage with `wb.view`."""
        return views.own.names(self._stage())

    def view(self, name: str, **options: object) -> object:
        """What a registered view makes of this artefact; a `wb.Table` becomes a DataFrame."""
        made = views.own.named(self._stage(), name)(self, **options)
        return views.frame.frame(made) if isinstance(made, Table) else made

    def _stage(self) -> str:
        return type(self).__name__.lower()

    def plot(self, ax: Axes | None = None) -> Axes:
        """A picture of the artefact; only the timeline has one yet."""
        raise not_yet(f"a picture of {type(self).__name__}", "j.simulated.plot() draws the timeline.")

    def widget(self) -> object:
        """An interactive view in a notebook."""
        raise not_yet(f"a widget of {type(self).__name__}", "Use .text(), .table or j.simulated.plot().")


@dataclass(frozen=True, repr=False)
class Captured(Handle[AtenGraph]):
    """What the function asks of ATen, without its weights."""

    program: CapturedProgram | None = field(default=None, compare=False)
    """The ties to the live function; None for a record that was loaded."""

    def _table(self) -> Table:
        return views.graph.nodes_table(self.record)

    def text(self) -> str:
        return views.graph.graph_text(self.record)

    def body_html(self) -> str:
        return views.stage_html.captured(self.record)

    @property
    def graphs(self) -> tuple[AtenGraph, ...]:
        """The captured graphs: several when Python runs between them, in the order in which they first ran."""
        parts = self.program.parts if self.program else None
        return tuple(parts.graphs.values()) if parts else (self.record,)

    @property
    def inputs(self) -> pd.DataFrame:
        """What the caller gives: one row a tensor, in call order."""
        return views.frame.frame(views.graph.inputs_table(self.record, "user"))

    @property
    def params(self) -> pd.DataFrame:
        """What the function holds itself: parameters, buffers, closed-over tensors and constants."""
        return views.frame.frame(views.graph.inputs_table(self.record, "parameter", "buffer", "closure", "constant"))

    @property
    def breaks(self) -> tuple[str, ...]:
        """Where the graph was broken, and why."""
        if self.program:
            return self.program.breaks
        return tuple(node.origin.place for node in self.record.nodes if node.op == BREAK)

    def __repr__(self) -> str:
        graph = self.record
        return f"Captured({graph.name!r}, {_count(len(graph.nodes), 'node')}, {_count(len(graph.inputs), 'input')})"


@dataclass(frozen=True, repr=False)
class LoweredKernel:
    """A set of nodes that become one MLIR function."""

    record: Kernel
    graph: KernelGraph

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def kind(self) -> str:
        """What its anchor is: elementwise, reduction or contraction, for instance."""
        return self.record.kind

    @property
    def nodes(self) -> tuple[str, ...]:
        """Its nodes after decomposition, in order."""
        return self.record.nodes

    @property
    def ops(self) -> tuple[str, ...]:
        """The overload of each node."""
        return tuple(self.graph.node(name).node.op for name in self.nodes)

    @property
    def inputs(self) -> dict[str, TensorType]:
        """What it reads: value and type, in ABI order."""
        return {value: self.graph.types[value] for value in self.record.inputs}

    @property
    def outputs(self) -> dict[str, TensorType]:
        """What it makes: value and type, in ABI order."""
        return {value: self.graph.types[value] for value in self.record.outputs}

    def __repr__(self) -> str:
        return f"LoweredKernel({self.name!r}, {self.kind}, {_count(len(self.nodes), 'node')})"


@dataclass(frozen=True, repr=False)
class Lowered(Handle[KernelGraph]):
    """Every node with its route, grouped into kernels."""

    def _table(self) -> Table:
        return views.graph.lowered_table(self.record)

    def text(self) -> str:
        return views.graph.lowered_text(self.record)

    def body_html(self) -> str:
        return views.stage_html.lowered(self.record)

    @property
    def fusions(self) -> pd.DataFrame:
        """Pairs of nodes, fused and refused, with the rule and the reason."""
        return views.frame.frame(views.graph.fusions_table(self.record))

    @cached_property
    def kernels(self) -> tuple[LoweredKernel, ...]:
        """The kernels in launch order."""
        return tuple(LoweredKernel(kernel, self.record) for kernel in self.record.kernels)

    @property
    def kernel_table(self) -> pd.DataFrame:
        """One row a kernel, in launch order."""
        return views.frame.frame(views.graph.kernels_table(self.record))

    def __repr__(self) -> str:
        return f"Lowered({_count(len(self.record.nodes), 'node')} in {_count(len(self.record.kernels), 'kernel')})"


@dataclass(frozen=True, repr=False)
class RenderedKernel(Shown):
    """One kernel as MLIR before any scheduling."""

    record: KernelModule

    @property
    def name(self) -> str:
        return self.record.kernel

    @property
    def mlir(self) -> str:
        return self.record.mlir

    def text(self, *, select: Selection | None = None) -> str:
        """The MLIR; with a selection, `>` stands before its lines."""
        return views.kernels.marked(self.mlir, self.name, _rendered_lines(select))

    @cached_property
    def lines(self) -> dict[int, tuple[str, ...]]:
        """1-based line of `.mlir` -> the nodes it comes from."""
        return views.kernels.rendered_line_origins(self.record)

    def __repr__(self) -> str:
        return f"RenderedKernel({self.name!r}, {_count(len(self.mlir.splitlines()), 'line')})"

    def html(self) -> str:
        """The MLIR with the nodes behind each line."""
        return views.markup.fragment(views.stage_html.rendered_kernel(self.record))


@dataclass(frozen=True, repr=False)
class Rendered(Handle[tuple[KernelModule, ...]]):
    """Every kernel as verified MLIR, linalg on tensors."""

    hosts: tuple[Kernel, ...] = ()
    """The steps on the host, of which there is no MLIR."""

    def _table(self) -> Table:
        return views.kernels.rendered_table(self.record, self.hosts)

    def text(self, *, select: Selection | None = None) -> str:
        """All kernels' MLIR; with a selection, `>` stands before its lines."""
        return views.kernels.rendered_text(self.record, self.hosts, _rendered_lines(select))

    def body_html(self) -> str:
        return views.stage_html.rendered(self.record, hosts=self.hosts)

    @cached_property
    def kernels(self) -> tuple[RenderedKernel, ...]:
        return tuple(RenderedKernel(module) for module in self.record)

    def __repr__(self) -> str:
        return f"Rendered({_count(len(self.record), 'kernel')})"


@dataclass(frozen=True, repr=False)
class ScheduledKernelHandle(Shown):
    """One kernel in the scheduled form: what runs natively and what is simulated."""

    record: ScheduledKernel

    @property
    def name(self) -> str:
        return self.record.kernel

    @property
    def mlir(self) -> str:
        return self.record.mlir

    @property
    def schedule(self) -> str:
        """The transform script that made it."""
        return self.record.schedule

    @property
    def mapping(self) -> Mapping:
        return self.record.mapping

    @property
    def dims(self) -> dict[str, int]:
        """Name and extent of every dim that a mapping may name."""
        return dict(self.record.dims)

    @property
    def passes(self) -> tuple[Snapshot, ...]:
        """The module after every step, with the pipeline that reproduces the step."""
        return self.record.passes

    @property
    def program(self) -> TileProgram:
        return self.record.program

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return self.record.program.buffers

    @property
    def table(self) -> pd.DataFrame:
        """One row a pass."""
        return views.frame.frame(views.kernels.passes_table(self.record))

    def text(self, *, select: Selection | None = None) -> str:
        """The mapping, what it moves, and the MLIR; with a selection, `>` stands before its lines."""
        return views.kernels.scheduled_kernel_text(self.record, select.lines_of if select else None)

    def __repr__(self) -> str:
        return f"ScheduledKernel({self.name!r}, {_count(len(self.program), 'instruction')})"

    def html(self) -> str:
        """Mapping, MLIR, passes with what each changed, transform script and buffers."""
        return views.markup.fragment(views.stage_html.scheduled_kernel(self.record))


@dataclass(frozen=True, repr=False)
class Scheduled(Handle[ScheduledProgram]):
    """Every kernel tiled into loops over the scratchpad, with the tile program read off it."""

    rendered: tuple[KernelModule, ...] = field(default=(), compare=False)
    """What it was made from: the first step of each kernel is shown against it."""

    def _table(self) -> Table:
        return views.kernels.scheduled_table(self.record)

    @property
    def residence(self) -> pd.DataFrame:
        """The plan of the common memory: one row a tensor in DRAM, whether it stays there, from launch to launch, what
        that spares DRAM, and why or why not. No rows, and a warning, without a plan (`resident=`)."""
        return views.frame.frame(views.residence.residence_table(self.record))

    def text(self, *, select: Selection | None = None) -> str:
        """All kernels with their mappings; with a selection, `>` stands before its lines."""
        return views.kernels.scheduled_text(self.record, select.lines_of if select else None)

    def body_html(self) -> str:
        return views.stage_html.scheduled(self.record, self.rendered)

    @cached_property
    def kernels(self) -> tuple[ScheduledKernelHandle, ...]:
        return tuple(ScheduledKernelHandle(kernel) for kernel in self.record.kernels)

    def __repr__(self) -> str:
        kernels, launches = len(self.record.kernels), len(self.record.launches.launches)
        instructions = sum(len(kernel.program) for kernel in self.record.kernels)
        return (
            f"Scheduled({_count(kernels, 'kernel')}, {_count(launches, 'launch')}, "
            f"{_count(instructions, 'instruction')})"
        )


@dataclass(frozen=True, repr=False)
class Simulated(Handle[Trace]):
    """The timeline: when every instruction ran, on which unit, and what it waited for."""

    scheduled: ScheduledProgram
    lowered: KernelGraph

    @property
    def trace(self) -> Trace:
        return self.record

    @property
    def machine(self) -> Machine:
        return self.record.machine

    @property
    def cycles(self) -> int:
        """The makespan."""
        return self.record.makespan

    @property
    def time_us(self) -> float:
        return self.record.machine.microseconds(self.record.makespan)

    @property
    def stats(self) -> dict[str, int | float]:
        """The figures that fit on a card: cycles, bytes, shares of the machine's peaks."""
        return views.timeline.stats(self.record)

    @property
    def events(self) -> pd.DataFrame:
        """One row a span; `blocker` is the instruction of the same launch that was waited for last, or -1, and `slack`
        the cycles that it could have started later without moving the makespan."""
        return views.frame.frame_of_columns(views.timeline.event_columns(self.record, self.scheduled.launches))

    @property
    def by_kernel(self) -> pd.DataFrame:
        """One row a kernel: cycles from begin to end of its launches, bytes, busy unit cycles.

        What a launch takes before its kernel begins is in no kernel's cycles; `.waterfall` has it as `launch`.
        """
        return views.frame.frame(views.timeline.by_kernel(self.record))

    @property
    def by_op(self) -> pd.DataFrame:
        """One row a captured node: its part of the busy unit cycles and of the bytes."""
        return views.frame.frame(views.timeline.by_op(self.record, self.scheduled.launches, self.lowered))

    @property
    def stalls(self) -> pd.DataFrame:
        """One row a unit: busy cycles and idle cycles by cause; each row adds up to the makespan."""
        return views.frame.frame(views.timeline.stalls(self.record))

    @property
    def memory(self) -> pd.DataFrame:
        """One row a channel of a banked memory: requests, row hits, misses and conflicts, ACTs, refreshes, bytes;
        cycles by what it did, which add up to the makespan, and those in which requests found its queue full. With
        another memory there are no rows, and a warning.
        """
        return views.frame.frame(views.timeline.memory(self.record))

    @property
    def bandwidth(self) -> pd.DataFrame:
        """One row a channel of a banked memory and piece of time: begin, end, bytes moved, bytes a cycle. With
        another memory there are no rows, and a warning."""
        return views.frame.frame(views.timeline.bandwidth(self.record))

    @property
    def energy(self) -> pd.DataFrame:
        """One row a kernel, unit and kind: how many there were (MACs, element operations, bytes, ACTs), what each takes
        by the machine's figures, what all took, in picojoules; and whether the figure is assumed."""
        return views.frame.frame(views.timeline.energy(self.record))

    @property
    def links(self) -> pd.DataFrame:
        """One row a link of a crossbar, of a mesh or between chiplets: from, to, bytes, cycles it was held, and their
        part of the makespan. Where there are no links there are no rows, and a warning."""
        return views.frame.frame(views.timeline.links(self.record))

    @property
    def placement(self) -> pd.DataFrame:
        """One row a tensor in DRAM, on a machine of several chiplets: how it was placed, how many of its pages lay on
        each, and how many bytes were asked for from there (local) and from elsewhere (remote), in whole requests.
        On a machine in one piece there are no rows, and a warning."""
        paths = {given.value: given.path for given in self.lowered.captured.inputs}
        return views.frame.frame(views.placement.placement_table(self.record, paths))

    @property
    def skipped(self) -> pd.DataFrame:
        """What a machine with `skips_zero_tiles` left out: one row a kernel and tensor that it loads, by tiles, and one
        for its products; `known` says whether the tensor's numbers were at hand when the timeline was made."""
        return views.frame.frame(views.timeline.skipped(self.record, self.scheduled.launches, self.lowered))

    @property
    def critical_path(self) -> pd.DataFrame:
        """One row a piece of the makespan, first to last: which span (a row of `events`) was on its way, what it did,
        and what it had waited for. The cycles add up to the makespan."""
        return views.frame.frame(views.timeline.critical_path(self.record))

    @property
    def waterfall(self) -> pd.DataFrame:
        """Where the makespan went along the critical path; the cycles add up to it."""
        return views.frame.frame(views.timeline.waterfall(self.record))

    def kernel_cycles(self) -> dict[str, int]:
        """Cycles from begin to end over all launches of each kernel."""
        return views.timeline.kernel_cycles(self.record)

    def _table(self) -> Table:
        return views.timeline.by_kernel(self.record)

    def text(self, *, width: int = 72, select: Selection | None = None, critical: bool = False) -> str:
        """The run in words and the timeline in letters; with a selection, or with the `critical` path, other spans are
        dashes."""
        return views.timeline.simulated_text(self.record, width=width, selected=self._marked(select, critical))

    def body_html(self) -> str:
        return views.stage_html.simulated(self.record, self.gantt())

    def gantt(self, *, select: Selection | None = None, critical: bool = False) -> Gantt:
        """The timeline's geometry, which every picture is drawn from; with a selection, or with the `critical` path,
        other spans are faint."""
        drawn, marked = views.timeline.gantt_of(self.record), self._marked(select, critical)
        return drawn if marked is None else drawn.marked(marked)

    def _marked(self, select: Selection | None, critical: bool) -> tuple[int, ...] | None:
        """The spans that are not faint: those of a selection, on the critical path, or both at once; None is all."""
        if not critical:
            return select.spans if select else None
        path = views.timeline.on_critical_path(self.record)
        return tuple(span for span in path if span in set(select.spans)) if select else path

    def plot(
        self,
        ax: Axes | None = None,
        *,
        style: str = "light",
        width: float = 11.0,
        select: Selection | None = None,
        critical: bool = False,
    ) -> Axes:
        """The timeline as a picture: `style` is light or dark, `width` the inches of a new figure.

        With a selection, or with the `critical` path, all other spans are faint.
        """
        return drawing().timeline(self.gantt(select=select, critical=critical), ax, style=style, width=width)

    def __repr__(self) -> str:
        return f"Simulated({self.cycles:,} cycles, {self.time_us:.2f} µs on {self.machine.label})"


class Drawing(Protocol):
    """What `workbench.jupyter.plot_timeline` offers."""

    def timeline(self, view: Gantt, ax: Axes | None, *, style: str, width: float) -> Axes: ...

    def timelines(self, names: Sequence[str], each: Sequence[Gantt], *, style: str, width: float) -> Figure: ...


def drawing() -> Drawing:
    """The drawing module, reached by name: the core neither imports nor needs matplotlib."""
    try:
        return cast(Drawing, importlib.import_module("workbench.jupyter.plot_timeline"))
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{error.name} is not installed, and pictures need it: pip install 'aten-workbench[lab]'. "
            "The timeline as text is j.simulated.text()."
        ) from None


def _rendered_lines(select: Selection | None) -> Selected | None:
    return None if select is None else lambda kernel: select.lines_of(kernel, "rendered")


def _count(number: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"
