"""The artefact of the fifth stage: the timeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, cast

from simulator import Trace
from workbench import views
from workbench.artefacts.array_handle import ArrayView
from workbench.artefacts.handle import Handle
from workbench.artefacts.moment_handle import Moment
from workbench.artefacts.pictures import drawing, memory_widgets, timeline_widgets
from workbench.artefacts.pipeline_handle import PipelineView
from workbench.artefacts.roofline_handle import RooflineView
from workbench.artefacts.scratchpad_handle import Scratchpad
from workbench.environment.verb_options import knows_its_options
from workbench.ir import KernelGraph, ScheduledProgram
from workbench.views.basics.table import Table

if TYPE_CHECKING:
    import pandas as pd

    from simulator import Machine
    from workbench.artefacts.plot_types import Axes
    from workbench.views.graphs.spent import Spent
    from workbench.views.scratchpads.launch_replay import Replays
    from workbench.views.selections.selection import Selection
    from workbench.views.selections.selection_model import SelectionModel
    from workbench.views.timelines.gantt import Gantt


@dataclass(frozen=True, repr=False)
class Simulated(Handle[Trace]):
    """The timeline: when every instruction ran, on which unit, and what it waited for."""

    scheduled: ScheduledProgram
    lowered: KernelGraph
    _selection: Callable[[], SelectionModel] | None = field(default=None, compare=False)
    """The journey's; None of a run that belongs to no journey."""

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
        """What the run spent on each captured node and on each kernel: cycles and bytes of DRAM."""
        return views.spent.spent(self.record, self.scheduled.launches)

    @property
    def stats(self) -> dict[str, int | float]:
        """The figures that fit on a card: cycles, bytes, shares of the machine's peaks."""
        return views.timeline.stats(self.record)

    @property
    def events(self) -> pd.DataFrame:
        """One row a span; `blocker` is the instruction of the same launch that was waited for last, or -1, and `slack`
        the cycles that it could have started later without moving the makespan.

        Of a transfer from or to DRAM `bytes` are what it asks for, `moved` what the memory moves for it in whole
        requests, `run` the bytes that lie together in DRAM, `stretch` those that a queue moves side by side, and
        `peak_share` what it asks for of all that the memory could move in its time, in which others' data did not move.
        """
        return views.data_frames.frame_of_columns(views.timeline.event_columns(self.record, self.scheduled.launches))

    @property
    def by_kernel(self) -> pd.DataFrame:
        """One row a kernel: cycles from begin to end of its launches, bytes, busy unit cycles, and its title, which is
        what a person would call it.

        What a launch takes before its kernel begins is in no kernel's cycles; `.waterfall` has it as `launch`.
        """
        return views.data_frames.frame(self._table())

    @property
    def transfers(self) -> pd.DataFrame:
        """One row a kernel and kind of transfer from or to DRAM: how many, bytes asked for and moved, bytes of a run
        and of a stretch on the average, cycles, and the share of the memory's peak: see `.events`."""
        return views.data_frames.frame(views.transfers.by_kernel(self.record))

    @property
    def by_op(self) -> pd.DataFrame:
        """One row a captured node: its part of the busy unit cycles and of the bytes."""
        return views.data_frames.frame(views.timeline.by_op(self.record, self.scheduled.launches, self.lowered))

    @property
    def stalls(self) -> pd.DataFrame:
        """One row a unit: busy cycles and idle cycles by cause; each row adds up to the makespan.

        Of the cycles that wait for the memory while it serves others, `memory_peak` are those in which it moves bytes
        that were asked for, and `inefficient_transfers` those in which it moves the rest of whole requests.
        """
        return views.data_frames.frame(views.timeline.stalls(self.record))

    @property
    def memory(self) -> pd.DataFrame:
        """One row a channel of a banked memory: requests, row hits, misses and conflicts, ACTs, refreshes, bytes;
        cycles by what it did, which add up to the makespan, and those in which requests found its queue full. With
        another memory there are no rows, and a warning.
        """
        return views.data_frames.frame(views.timeline.memory(self.record))

    @property
    def bandwidth(self) -> pd.DataFrame:
        """One row a channel of a banked memory and piece of time: begin, end, bytes moved, bytes a cycle. With
        another memory there are no rows, and a warning."""
        return views.data_frames.frame(views.timeline.bandwidth(self.record))

    @property
    def energy(self) -> pd.DataFrame:
        """One row a kernel, unit and kind: how many there were (MACs, element operations, bytes, ACTs), what each takes
        by the machine's figures, what all took, in picojoules; and whether the figure is assumed or fitted."""
        return views.data_frames.frame(views.timeline.energy(self.record))

    @property
    def links(self) -> pd.DataFrame:
        """One row a link of a crossbar, of a mesh or between chiplets: from, to, bytes, cycles it was held, and their
        part of the makespan. Where there are no links there are no rows, and a warning."""
        return views.data_frames.frame(views.timeline.links(self.record))

    @property
    def placement(self) -> pd.DataFrame:
        """One row a tensor in DRAM, on a machine of several chiplets: how it was placed, how many of its pages lay on
        each, and how many bytes were asked for from there (local) and from elsewhere (remote), in whole requests.
        On a machine in one piece there are no rows, and a warning."""
        paths = {given.value: given.path for given in self.lowered.captured.inputs}
        return views.data_frames.frame(views.chiplet_table.placement_table(self.record, paths))

    @property
    def roofline(self) -> RooflineView:
        """What each kernel, and the whole, does for the bytes that it moves, under the machine's roofs: `.table`,
        `.plot()`, and a picture as HTML."""
        return RooflineView(views.roofline.roofline_of(self.record, self.scheduled.launches, self.lowered))

    @property
    def skipped(self) -> pd.DataFrame:
        """What a machine with `skips_zero_tiles` left out: one row a kernel and tensor that it loads, by tiles, and one
        for its products; `known` says whether the tensor's numbers were at hand when the timeline was made; a loaded
        journey knows that of those of which something was skipped."""
        return views.data_frames.frame(views.timeline.skipped(self.record, self.scheduled.launches, self.lowered))

    @cached_property
    def scratchpad(self) -> Scratchpad:
        """What lay in the scratchpad from when to when: a table and a picture, of all launches or `.of(kernel)`."""
        return Scratchpad(views.scratchpad.occupancy(self.record, self.scheduled, self.lowered), self._memory_widget)

    @knows_its_options
    def at(self, cycle: int) -> Moment:
        """One cycle: what lies in each slot of the scratchpad and who reads or writes it, which boxes of which tensors
        are touched, and how often each tile has been moved by then: `.slots`, `.boxes`, `.tiles`."""
        replays = self.replays
        return Moment(views.moments.Moment(replays.check(cycle), replays.of(replays.launch_at(cycle))))

    @cached_property
    def replays(self) -> Replays:
        """The launches as `at` and the widget look at them."""
        return views.launch_replay.Replays(self.record, self.scheduled, self.lowered)

    def _memory_widget(self, cycle: int) -> object:
        return memory_widgets().memory(self.replays, self._selection() if self._selection else None, cycle=cycle)

    @property
    def critical_path(self) -> pd.DataFrame:
        """One row a piece of the makespan, first to last: which span (a row of `events`) was on its way, what it did,
        and what it had waited for. The cycles add up to the makespan."""
        return views.data_frames.frame(views.timeline.critical_path(self.record))

    @property
    def waterfall(self) -> pd.DataFrame:
        """Where the makespan went along the critical path; the cycles add up to it."""
        return views.data_frames.frame(views.timeline.waterfall(self.record))

    @knows_its_options
    def area(self, begin: int, end: int, *, units: Sequence[str] | None = None) -> pd.DataFrame:
        """What units did between two cycles, one row a unit: spans that lie there at least in part, busy cycles and
        their share, bytes and their rate. A span's bytes are taken to move evenly over it."""
        return views.data_frames.frame(views.areas.area(self.record, begin, end, units))

    @knows_its_options
    def gap(self, unit: str, cycle: int) -> pd.DataFrame:
        """Why a unit does no work in a cycle: one row with the idle time around it, its cause, the reason in words, the
        span that waited and the one that it waited for (rows of `.events`, -1 for none). It is an error where the unit
        works."""
        return views.data_frames.frame(
            views.gaps.gap_table(views.gaps.gap(self.record, unit, cycle, self.scheduled.launches))
        )

    @knows_its_options
    def search(self, text: str) -> pd.DataFrame:
        """The rows of `.events` that have all of these words, in the name of their kernel (or of the one whose program
        it runs), of a node, of their kind or of their unit; `kind:load`, `kernel:`, `node:` and `unit:` look in one of
        them alone."""
        rows = views.span_search.found(self.record, self.scheduled.launches, text)
        return cast("pd.DataFrame", self.events.iloc[rows])

    @knows_its_options
    def array(self, span: int | None = None) -> ArrayView:
        """One matmul instruction, a row of `.events`, on its systolic array step by step; without one the longest."""
        return ArrayView(views.arrays.walk_of(self.record, span), self)

    @knows_its_options
    def pipeline(self, kernel: str | int, *, loop: str | None = None) -> PipelineView:
        """The iterations of a kernel's loop over tiles as they ran: which load overlaps which compute, and what each
        waited for. `kernel` is one by its name, or a launch by its number; `loop` is the innermost unless it is named.
        """
        made = views.pipelines.pipeline_of(self.record, self.scheduled.launches, kernel, loop)
        return PipelineView(made, self, loop)

    def kernel_cycles(self) -> dict[str, int]:
        """Cycles from begin to end over all launches of each kernel."""
        return views.timeline.kernel_cycles(self.record)

    def _table(self) -> Table:
        titles = views.titles.scheduled_titles(self.lowered, self.scheduled)
        return views.titles.with_titles(views.timeline.by_kernel(self.record), titles)

    @knows_its_options
    def text(self, *, width: int = 72, select: Selection | None = None, critical: bool = False) -> str:
        """The run in words and the timeline in letters; with a selection, or with the `critical` path, other spans are
        dashes."""
        return views.letters.simulated_text(self.record, width=width, selected=self._marked(select, critical))

    def body_html(self) -> str:
        return views.stage_html.simulated(self.record, self.gantt(), self._table())

    @knows_its_options
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
        return drawing().timeline(self.gantt(select=select, critical=critical), ax, style=style, width=width)

    @knows_its_options
    def widget(self, *, beside: Simulated | None = None) -> object:
        """The timeline to pan, zoom, search and measure in, in a notebook; two runs above each other, `beside` another,
        show the same stretch of time. `.spans` of the widget are the selected rows of `.events`. See docs/timeline.md.
        """
        return timeline_widgets().timeline([self] if beside is None else [self, beside])

    def __repr__(self) -> str:
        return f"Simulated({self.cycles:,} cycles, {self.time_us:.2f} µs on {self.machine.label})"
