"""`j.simulated.parts` and `j.simulated.dram`: the parts of a training step, and what lies in DRAM during a run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from workbench.explaining.artefacts.pictures import drawing
from workbench.explaining.views.timelines import dram_contents, timeline, training_parts
from workbench.explaining.views.timelines.dram_picture import dram_picture
from workbench.explaining.views.timelines.gantt_picture import gantt_picture
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
    from workbench.explaining.artefacts.plot_types import Axes, Figure
    from workbench.explaining.views.timelines.dram_contents import Contents
    from workbench.ir import KernelGraph


@dataclass(frozen=True, repr=False)
class PartsView(Shown):
    """Forward pass, backward pass and the optimizer's step of a training step."""

    record: Trace
    lowered: KernelGraph

    @property
    def table(self) -> pd.DataFrame:
        """One row a part: launches, cycles with what each launch takes to begin, and the bytes of DRAM that they move;
        the cycles add up to the makespan. Without rows, and with a warning, if nothing is trained."""
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
        """The table, or why there is none."""
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
    """The bytes of all tensors in DRAM, launch by launch, by what they are for."""

    record: Contents

    @property
    def table(self) -> pd.DataFrame:
        """One row a launch: its part of a training step, the cycles in which it runs (with what it takes to begin), and
        the bytes that lie in DRAM meanwhile, by kind. Results, and new values of what the function changes, have their
        place throughout."""
        return data_frames.frame(self.record.launch_table())

    @property
    def tensors(self) -> pd.DataFrame:
        """One row a tensor, the largest first: its kind, its bytes, and the first and the last kernel that it is there
        for; without a kernel it is there from the begin, or to the end."""
        return data_frames.frame(self.record.tensor_table())

    @property
    def peak(self) -> int:
        """The most bytes at one time."""
        return sum(self.record.peak.bytes) if self.record.peak else 0

    @knows_its_options
    def text(self) -> str:
        """The most bytes, when, and of what kinds."""
        return dram_contents.told(self.record)

    @knows_its_options
    def html(self) -> Markup:
        """The picture, and the largest tensors below it, closed."""
        table = self.record.tensor_table()
        rows = markup.details("tensors", markup.table(table), note=f"{len(table.rows)} rows")
        return markup.fragment(svg_of(dram_picture(self.record)) + (rows if table.rows else ""))

    @knows_its_options
    def plot(self, ax: Axes | None = None, *, style: str = "theme", width: float = 11.0) -> Axes:
        """The picture with matplotlib: bytes upwards, time to the right. `style` is light, dark or the notebook's
        theme, `width` its inches."""
        return drawing().axes(functools.partial(dram_picture, self.record), ax, style=style, width=width)

    def __repr__(self) -> str:
        return f"DramView({dram_contents.told(self.record)})"
