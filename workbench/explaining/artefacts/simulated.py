"""The artefact of the fifth stage: the timeline."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, cast

from markupsafe import Markup

from workbench.explaining.artefacts.handle import Handle
from workbench.explaining.artefacts.pictures import drawing, widgets
from workbench.explaining.artefacts.run_views import ArrayView, DramView, PartsView, PipelineView, RooflineView
from workbench.explaining.artefacts.scratchpad_views import Moment, Scratchpad
from workbench.explaining.views.graphs import spent, titles
from workbench.explaining.views.kernel_lists import memory_tables
from workbench.explaining.views.pages import stage_html
from workbench.explaining.views.scratchpads import launch_replay, moments, scratchpad
from workbench.explaining.views.timelines import (
    arrays,
    dram_contents,
    letters,
    pipelines,
    roofline,
    timeline,
    timeline_questions,
)
from workbench.explaining.views.timelines.gantt_picture import gantt_picture
from workbench.ground.basics import data_frames
from workbench.ground.basics.table import Table
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ir import KernelGraph, ScheduledProgram

if TYPE_CHECKING:
    import pandas as pd

    from simulator import Machine, Trace
    from workbench.explaining.artefacts.plot_types import Axes
    from workbench.explaining.views.graphs.spent import Spent
    from workbench.explaining.views.scratchpads.launch_replay import Replays
    from workbench.explaining.views.selections.selection import Selection
    from workbench.explaining.views.selections.selection_model import SelectionModel
    from workbench.explaining.views.timelines.gantt import Gantt


@dataclass(frozen=True, repr=False)
class Simulated(Handle["Trace"]):
    """The timeline: the cycles and the unit of every instruction, and the causes of its waits."""

    scheduled: ScheduledProgram
    lowered: KernelGraph
    _selection: Callable[[], SelectionModel] | None = field(default=None, compare=False)
    """Returns the journey's selection; None for a run without a journey."""

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

    @cached_property
    def spent(self) -> Spent:
        """Cycles and bytes of DRAM of each captured node and each kernel."""
        return spent.spent(self.record, self.scheduled.launches)

    @property
    def stats(self) -> dict[str, int | float]:
        """The figures that fit on a card: cycles, bytes, shares of the machine's peak rates.

        `dram_share_of_peak` and `macs_share_of_peak` compare the needed bytes and products with the rates in a data
        sheet, over the whole run. Shares of roofs, in `.roofline` and `j.findings`, are larger where streams do not
        reach the peak rate. `dma_busy_share` and the like are averages over the units of a kind.
        """
        return timeline.stats(self.record)

    @property
    def events(self) -> pd.DataFrame:
        """One row a span; `blocker` is the instruction of the same launch that it waited for last, or -1, and `slack`
        the cycles by which it could start later without changing the makespan.

        For a transfer from or to DRAM `bytes` are the needed bytes, `moved` those that the memory moves in whole
        requests, `run` the bytes that lie together in DRAM, `stretch` those that a queue moves side by side, and
        `peak_share` the needed bytes, divided by the bytes that long streams would move in the transfer's own cycles,
        at most 1. Cycles in which the memory served other transfers do not count.
        """
        return data_frames.frame_of_columns(timeline.event_columns(self.record, self.scheduled.launches))

    @property
    def by_kernel(self) -> pd.DataFrame:
        """One row a kernel: cycles from begin to end of its launches, bytes, busy unit cycles, and its readable title.

        `dma_busy` and the like are sums over all units of a kind: with two queues they may exceed the kernel's cycles.
        No kernel's cycles include the launch overhead before it; `.waterfall` has it as `launch`.
        """
        return data_frames.frame(self._table())

    @property
    def transfers(self) -> pd.DataFrame:
        """One row a kernel and kind of transfer from or to DRAM: their number, bytes needed and moved, average bytes of
        a run and of a stretch, cycles, and `peak_share`: see `.events`."""
        return data_frames.frame(timeline.transfers(self.record))

    @property
    def by_op(self) -> pd.DataFrame:
        """One row a captured node: its part of the busy unit cycles and of the bytes."""
        return data_frames.frame(timeline.by_op(self.record, self.scheduled.launches, self.lowered))

    @property
    def stalls(self) -> pd.DataFrame:
        """One row a unit: busy cycles and idle cycles by cause; each row adds up to the makespan.

        Waits for the memory while it serves other transfers are divided in two: in `memory_peak` it moves needed bytes,
        in `inefficient_transfers` the rest of whole requests.
        """
        return data_frames.frame(timeline.stalls(self.record))

    @property
    def memory(self) -> pd.DataFrame:
        """One row a channel of a banked memory: requests, row hits, misses and conflicts, ACTs, refreshes, bytes;
        its cycles by activity, which add up to the makespan, and those in which its queue was full. With
        another memory there are no rows, and a warning.
        """
        return data_frames.frame(timeline.memory(self.record))

    @property
    def bandwidth(self) -> pd.DataFrame:
        """One row a channel of a banked memory and piece of time: begin, end, bytes moved, bytes a cycle. With
        another memory there are no rows, and a warning."""
        return data_frames.frame(timeline.bandwidth(self.record))

    @property
    def energy(self) -> pd.DataFrame:
        """One row a kernel, unit and kind: their number (MACs, element operations, bytes, ACTs), the picojoules of each
        by the machine's figures, their sum, and whether the figure is assumed or fitted."""
        return data_frames.frame(timeline.energy(self.record))

    @property
    def links(self) -> pd.DataFrame:
        """One row a link of a crossbar, of a mesh or between chiplets: from, to, bytes, the cycles in which it was
        occupied, and their share of the makespan. Without links there are no rows, and a warning."""
        return data_frames.frame(timeline.links(self.record))

    @property
    def placement(self) -> pd.DataFrame:
        """One row a tensor in DRAM, on a machine of several chiplets: its placement, the number of its pages on each
        chiplet, and the bytes requested by the same chiplet (local) and by others (remote), in whole requests. On a
        machine without chiplets there are no rows, and a warning."""
        paths = self.lowered.captured.paths
        return data_frames.frame(memory_tables.placement_table(self.record, paths))

    @property
    def roofline(self) -> RooflineView:
        """The operations and moved bytes of each kernel, and of the whole run, under the machine's roofs: `.table`,
        `.plot()`, and a picture as HTML."""
        return RooflineView(roofline.roofline_of(self.record, self.scheduled.launches, self.lowered))

    @cached_property
    def parts(self) -> PartsView:
        """Forward pass, backward pass and optimizer of a training step: cycles, bytes, and timelines on one scale."""
        return PartsView(self.record, self.lowered)

    @cached_property
    def dram(self) -> DramView:
        """The bytes that lie in DRAM at each launch: parameters, tensors saved for the backward pass, and so on."""
        return DramView(dram_contents.contents(self.record, self.scheduled.launches, self.lowered))

    @property
    def skipped(self) -> pd.DataFrame:
        """The tiles that a machine with `skips_zero_tiles` skipped: one row a kernel and loaded tensor, and one for the
        kernel's products. `known` says whether the tensor's numbers were known when the timeline was made; a loaded
        journey knows this only for tensors with skipped tiles."""
        return data_frames.frame(timeline.skipped(self.record, self.scheduled.launches, self.lowered))

    @cached_property
    def scratchpad(self) -> Scratchpad:
        """The contents of the scratchpad over time: a table and a picture, of all launches or `.of(kernel)`."""
        return Scratchpad(scratchpad.occupancy(self.record, self.scheduled, self.lowered), self._memory_widget)

    @knows_its_options
    def at(self, cycle: int) -> Moment:
        """One cycle: the contents, readers and writers of each slot of the scratchpad, the boxes of tensors that
        instructions touch, and the moves of each tile so far: `.slots`, `.boxes`, `.tiles`."""
        replays = self.replays
        return Moment(moments.Moment(replays.check(cycle), replays.of(replays.launch_at(cycle))))

    @cached_property
    def replays(self) -> Replays:
        """The replays of all launches, for `at` and the widget."""
        return launch_replay.Replays(self.record, self.scheduled, self.lowered)

    def _memory_widget(self, begin: int, end: int) -> object:
        selection = self._selection() if self._selection else None
        return widgets("memory_widget").memory(self.replays, selection, begin=begin, end=end)

    @property
    def critical_path(self) -> pd.DataFrame:
        """One row a piece of the makespan, first to last: its span (a row of `events`), the span's activity, and the
        cause of its wait. The cycles add up to the makespan."""
        return data_frames.frame(timeline.critical_path(self.record))

    @property
    def waterfall(self) -> pd.DataFrame:
        """The makespan, divided along the critical path; the cycles add up to it."""
        return data_frames.frame(timeline.waterfall(self.record))

    @knows_its_options
    def area(self, begin: int, end: int, *, units: Sequence[str] | None = None) -> pd.DataFrame:
        """The work of units between two cycles, one row a unit: spans that lie there at least in part, busy cycles and
        their share, bytes and their rate. A span's bytes are assumed to move evenly over it."""
        return data_frames.frame(timeline_questions.area(self.record, begin, end, units))

    @knows_its_options
    def gap(self, unit: str, cycle: int) -> pd.DataFrame:
        """Why a unit does no work in a cycle: one row with the idle time around it, its cause, the reason in words, the
        span that waited and the span that it waited for (rows of `.events`, -1 for none). Raises an error where the
        unit works."""
        found = timeline_questions.gap(self.record, unit, cycle, self.scheduled.launches)
        return data_frames.frame(timeline_questions.gap_table(found))

    @knows_its_options
    def search(self, text: str) -> pd.DataFrame:
        """The rows of `.events` that have all words of `text` in the name of their kernel (or of the kernel whose
        program it runs), of a node, of their kind or of their unit; `kind:load`, `kernel:`, `node:` and `unit:` search
        only one of these names."""
        rows = timeline_questions.search(self.record, self.scheduled.launches, text)
        return cast("pd.DataFrame", self.events.iloc[rows])

    @knows_its_options
    def array(self, span: int | None = None) -> ArrayView:
        """One matmul instruction, a row of `.events`, on its systolic array step by step; without `span`, the longest
        one."""
        return ArrayView(arrays.walk_of(self.record, span), self)

    @knows_its_options
    def pipeline(self, kernel: str | int, *, loop: str | None = None) -> PipelineView:
        """The iterations of a kernel's loop over tiles as they ran: which load overlaps which compute, and the waits of
        each. `kernel` is a kernel's name, or a launch's number; the default of `loop` is the innermost.
        """
        view = pipelines.pipeline_of(self.record, self.scheduled.launches, kernel, loop)
        return PipelineView(view, self, loop)

    def kernel_cycles(self) -> dict[str, int]:
        """Cycles from begin to end over all launches of each kernel."""
        return timeline.kernel_cycles(self.record)

    def _table(self) -> Table:
        named = titles.scheduled_titles(self.lowered, self.scheduled)
        return titles.with_titles(timeline.by_kernel(self.record), named)

    @knows_its_options
    def text(self, *, width: int = 72, select: Selection | None = None, critical: bool = False) -> str:
        """The run in words and the timeline in letters; with a selection, or with the `critical` path, other spans are
        dashes."""
        return letters.simulated_text(self.record, width=width, selected=self._marked(select, critical))

    def body_html(self) -> Markup:
        return stage_html.simulated(self.record, self.gantt(), self._table())

    @knows_its_options
    def gantt(self, *, select: Selection | None = None, critical: bool = False) -> Gantt:
        """The timeline's geometry, which every picture is drawn from; with a selection, or with the `critical` path,
        other spans are faint."""
        drawn, marked = timeline.gantt_of(self.record), self._marked(select, critical)
        return drawn if marked is None else drawn.marked(marked)

    def _marked(self, select: Selection | None, critical: bool) -> tuple[int, ...] | None:
        """The spans that are not faint: those of a selection, on the critical path, or both at once; None is all."""
        if not critical:
            return select.spans if select else None
        path = timeline.on_critical_path(self.record)
        return tuple(span for span in path if span in set(select.spans)) if select else path

    @knows_its_options
    def plot(
        self,
        ax: Axes | None = None,
        *,
        style: str = "theme",
        width: float = 11.0,
        select: Selection | None = None,
        critical: bool = False,
    ) -> Axes:
        """The timeline as a picture: `style` is light, dark, or as the notebook's theme is when somebody looks at it
        (in files: light); `width` are the inches of a new figure.

        With a selection, or with the `critical` path, all other spans are faint.
        """
        picture = functools.partial(gantt_picture, self.gantt(select=select, critical=critical))
        return drawing("The timeline as text is j.simulated.text().").axes(picture, ax, style=style, width=width)

    @knows_its_options
    def widget(self, *, beside: Simulated | None = None) -> object:
        """The timeline to pan, zoom, search and measure in, in a notebook; with a second run as `beside`, both are
        shown above each other over the same stretch of time. `.spans` of the widget are the selected rows of `.events`.
        See docs/timeline.md."""
        return widgets("timeline_widget").timeline([self] if beside is None else [self, beside])

    def __repr__(self) -> str:
        return f"Simulated({self.cycles:,} cycles, {self.time_us:.2f} µs on {self.machine.label})"
