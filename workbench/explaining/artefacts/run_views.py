"""Views of a run: one matmul, one loop, the roofline, the parts of a training step, and the contents of DRAM."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from markupsafe import Markup

from workbench.explaining.artefacts.pictures import drawing, widgets
from workbench.explaining.views.timelines import (
    arrays,
    dram_contents,
    pipelines,
    svg_pipelines,
    timeline,
    training_parts,
)
from workbench.explaining.views.timelines.gantt_picture import gantt_picture
from workbench.explaining.views.timelines.roofline_picture import roofline_picture
from workbench.ground.basics import data_frames, markup
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.picture import Picture
from workbench.ground.basics.shown import Shown
from workbench.ground.basics.svg_painter import svg_of
from workbench.ground.basics.table import Table
from workbench.ground.environment.verb_options import knows_its_options

if TYPE_CHECKING:
    import pandas as pd

    from simulator import Trace
    from simulator.analysis.array_steps import ArrayWalk
    from workbench.explaining.artefacts.plot_types import Axes, Figure
    from workbench.explaining.views.timelines.dram_contents import Contents
    from workbench.explaining.views.timelines.pipelines import Pipeline
    from workbench.explaining.views.timelines.roofline import Roofline
    from workbench.ir import KernelGraph, ScheduledProgram


class Run(Protocol):
    """A run, for the views of its parts: `j.simulated`."""

    @property
    def record(self) -> Trace: ...

    @property
    def scheduled(self) -> ScheduledProgram: ...


@dataclass(frozen=True, repr=False)
class ArrayView(Shown):
    """The work of an array for one matmul, from its first weight to its last result."""

    record: ArrayWalk
    run: Run

    @property
    def span(self) -> int:
        """The row of `j.simulated.events`."""
        return self.record.span

    @property
    def table(self) -> pd.DataFrame:
        """Preload, stream and drain: the simulator's formula, the formula with the numbers of this instruction, its
        cycles, the cycles `hidden` behind the matmul before, and the place of the rest on the timeline. Cycles without
        hidden ones add up to the span, from its start to its last result."""
        return data_frames.frame(arrays.parts_table(self.record))

    @property
    def tiles(self) -> pd.DataFrame:
        """One row a tile that the array holds, in order: its place in the matmul (`batch`, `product`, one of the
        several that the precision takes, `down` along the array's rows, `across` along its columns), the rows and
        columns that it takes, and when it moves in, streams, is complete and out.

        Times are cycles of the array's clock; 0 is when its first row may stream, cycle `phase` of the run.
        """
        return data_frames.frame(arrays.tiles_table(self.record))

    @knows_its_options
    def at(self, cycle: int) -> pd.DataFrame:
        """One cycle of the array's clock: the parts of the work in progress, the tile of each, the rows that have moved
        in and streamed, and how many of the array's elements are at work."""
        return data_frames.frame(arrays.cycle_table(self.record, cycle))

    @knows_its_options
    def text(self) -> str:
        """The product, the part of the array that it uses, and its time by formula."""
        return arrays.walk_text(self.record, self.run.record, self.run.scheduled.launches)

    @knows_its_options
    def html(self) -> Markup:
        """The text with pictures: the wave front half across the array, and the tiles over time."""
        return markup.fragment(arrays.array_svg(self.record, self.run.record, self.run.scheduled.launches))

    @knows_its_options
    def widget(self) -> object:
        """The array cycle by cycle: scrub and play. See docs/looking-closer.md."""
        return widgets("explaining_widgets").array(self)

    def __repr__(self) -> str:
        title = arrays.title(self.record, self.run.record, self.run.scheduled.launches)
        return f"ArrayView({title}, {arrays.sum_text(self.record)})"


@dataclass(frozen=True, repr=False)
class PipelineView(Shown):
    """Iterations one below the other: which load overlaps which compute."""

    record: Pipeline
    run: Run
    loop: str | None
    """The loop whose iterations are the rows; None means all loops."""

    @property
    def kernel(self) -> str:
        return self.record.kernel

    @property
    def table(self) -> pd.DataFrame:
        """One row an iteration, in program order: when it began and ended; the cycles in which it loads, computes and
        stores; the cycles in which any of its transfers from or to DRAM runs (`moving`), and those of them in which its
        core computes (`hidden`); the slots of buffers that it uses, and the rows whose computing its transfers ran
        `during`.

        Instructions before or after the innermost loop are a row of their own, with fewer loops.
        """
        return data_frames.frame(pipelines.rows_table(self.record))

    @property
    def spans(self) -> pd.DataFrame:
        """One row a span: its iteration and stage, its row of `j.simulated.events`, its slots, its cycles, the cycles
        that it `waited` after its issue, their cause and blocker; for a transfer the cycles `hidden` behind work, and
        the rows with this work."""
        return data_frames.frame(pipelines.spans_table(self.record))

    @property
    def hidden_share(self) -> float | None:
        """The share of the cycles with transfers from or to DRAM in which the core computes; None without transfers."""
        moving, hidden = self.record.whole
        return hidden / moving if moving else None

    @knows_its_options
    def text(self) -> str:
        """The hidden share, and a line an iteration."""
        return pipelines.pipeline_text(self.record)

    @knows_its_options
    def html(self) -> Markup:
        """The first iterations as a picture: bars over time, above the stretches in which the core computes."""
        return markup.fragment(svg_pipelines.pipeline_svg(self.record))

    @knows_its_options
    def widget(self) -> object:
        """All iterations to scroll through, with the waits of each bar. See docs/looking-closer.md."""
        return widgets("explaining_widgets").pipeline(self)

    def __repr__(self) -> str:
        return f"PipelineView({pipelines.title(self.record)})"


@dataclass(frozen=True, repr=False)
class RooflineView(Shown):
    """The operations and the moved bytes of each kernel, under the machine's roofs."""

    record: Roofline

    @property
    def table(self) -> pd.DataFrame:
        """One row a kernel, then one for the `whole` run; steps on the host are in neither.

        Operations are multiply-adds of the arrays (`macs`) and operations on elements, each of which is one. Bytes are
        the needed ones, those that the memory moved in whole requests, and the least possible: each input and result of
        the kernel once; for the whole each input, weight and result of the function once. `run` and `stretch` are the
        mean bytes that lie together in DRAM and that a queue moves side by side. `intensity` is operations for each
        byte, moved or least. `ceiling` is the roof that applies: the part of the machine that needs most cycles for
        this work; `share` is these cycles over the kernel's cycles.
        """
        return data_frames.frame(self.record.table())

    @knows_its_options
    def text(self) -> str:
        """The table in short, and the kernels outside the picture."""
        shown = ("kernel", "cycles", "intensity", "intensity_least", "ops_per_cycle", "ceiling", "share")
        table = self.record.table()
        return "\n".join([table.pick(*shown).text() if table.rows else table.why_empty, *self.record.notes()])

    @knows_its_options
    def html(self) -> Markup:
        """The picture, and the table below it, closed."""
        table = self.record.table()
        rows = markup.details("table", markup.table(table), note=f"{len(table.rows)} rows")
        return markup.fragment(svg_of(roofline_picture(self.record)) + (rows if table.rows else ""))

    @knows_its_options
    def plot(self, ax: Axes | None = None, *, style: str = "theme", width: float = 9.0) -> Axes:
        """The picture with matplotlib: `style` is light, dark or the notebook's theme, `width` its inches."""
        return drawing().axes(functools.partial(roofline_picture, self.record), ax, style=style, width=width)

    def __repr__(self) -> str:
        if self.record.whole is None:
            return f"RooflineView(nothing runs on {self.record.machine})"
        whole = self.record.whole
        return f"RooflineView({len(self.record.points)} kernels, {whole.share:.0%} of {whole.ceiling or 'no roof'})"


@dataclass(frozen=True, repr=False)
class PartsView(Shown):
    """Forward pass, backward pass and the optimizer's step of a training step."""

    record: Trace
    lowered: KernelGraph

    @property
    def table(self) -> pd.DataFrame:
        """One row a part: launches, cycles with the launch overhead, and the bytes of DRAM that the launches move; the
        cycles add up to the makespan. If nothing is trained, there are no rows, and a warning."""
        return data_frames.frame(self._table())

    def _table(self) -> Table:
        return training_parts.by_part(self.record, self.lowered)

    def _pictures(self) -> list[Callable[..., Picture]]:
        """Makers of the timeline of each part, on one scale."""
        launches = training_parts.launches_by_part(self.lowered)
        views = {part: timeline.gantt_of(self.record, mine) for part, mine in launches.items()}
        scale = max((view.makespan for view in views.values()), default=0)
        return [functools.partial(gantt_picture, view, scale=scale, part=part) for part, view in views.items()]

    @knows_its_options
    def text(self) -> str:
        """The table, or the reason why there is none."""
        table = self._table()
        return table.text() if table.rows else table.why_empty

    @knows_its_options
    def html(self) -> Markup:
        """The table and the timelines of the parts, on one scale."""
        table = self._table()
        if not table.rows:
            return markup.fragment(html('<p class="soft">{}</p>', table.why_empty))
        return markup.fragment(markup.table(table) + joined(svg_of(make()) for make in self._pictures()))

    @knows_its_options
    def plot(self, *, style: str = "theme", width: float = 11.0) -> Figure:
        """The timelines of the parts below each other, on one scale, a row for every unit: `style` is light,
        dark or the notebook's theme, `width` the inches."""
        nothing = Picture(training_parts.NO_PARTS, nothing=training_parts.NO_PARTS)
        return drawing().figure(self._pictures() or [nothing], style=style, width=width)

    def __repr__(self) -> str:
        rows = self._table().pick("part", "cycles").rows
        return f"PartsView({', '.join(f'{part} {cycles:,} cycles' for part, cycles in rows) or 'nothing is trained'})"


@dataclass(frozen=True, repr=False)
class DramView(Shown):
    """The bytes of all tensors in DRAM, launch by launch, by kind of tensor."""

    record: Contents

    @property
    def table(self) -> pd.DataFrame:
        """One row a launch: its part of a training step, the cycles in which it runs (launch overhead included), and
        the bytes that lie in DRAM meanwhile, by kind. Results, and new values of tensors that the function changes,
        have their place in all launches."""
        return data_frames.frame(self.record.launch_table())

    @property
    def tensors(self) -> pd.DataFrame:
        """One row a tensor, the largest first: its kind, its bytes, and the first and the last kernel in whose time it
        is in DRAM; without a first kernel it is there from the begin, without a last one to the end."""
        return data_frames.frame(self.record.tensor_table())

    @property
    def peak(self) -> int:
        """The most bytes at one time."""
        return sum(self.record.peak.bytes) if self.record.peak else 0

    @knows_its_options
    def text(self) -> str:
        """The largest number of bytes in DRAM, the kernel running then, and the bytes of each kind."""
        return dram_contents.peak_text(self.record)

    @knows_its_options
    def html(self) -> Markup:
        """The picture, and the largest tensors below it, closed."""
        table = self.record.tensor_table()
        rows = markup.details("tensors", markup.table(table), note=f"{len(table.rows)} rows")
        return markup.fragment(svg_of(dram_contents.dram_picture(self.record)) + (rows if table.rows else ""))

    @knows_its_options
    def plot(self, ax: Axes | None = None, *, style: str = "theme", width: float = 11.0) -> Axes:
        """The picture with matplotlib: bytes upwards, time to the right. `style` is light, dark or the notebook's
        theme, `width` its inches."""
        return drawing().axes(functools.partial(dram_contents.dram_picture, self.record), ax, style=style, width=width)

    def __repr__(self) -> str:
        return f"DramView({dram_contents.peak_text(self.record)})"
