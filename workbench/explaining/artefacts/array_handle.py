"""One matmul instruction on its systolic array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from workbench.explaining.artefacts.handle import Run
from workbench.explaining.artefacts.pictures import widgets
from workbench.ground.basics import data_frames, markup
from workbench.ground.basics.shown import Shown
from workbench.ground.environment.verb_options import knows_its_options

if TYPE_CHECKING:
    import pandas as pd

    from simulator.analysis.array_steps import ArrayWalk


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
        from workbench.explaining.views.timelines import arrays

        return data_frames.frame(arrays.parts_table(self.record))

    @property
    def tiles(self) -> pd.DataFrame:
        """One row a tile that the array holds, in order: its place in the matmul (`batch`, `product` of those that the
        precision takes, `down` along the array's rows, `across` along its columns), the rows and columns that it takes,
        and when it moves in, streams, is complete and out.

        Times are cycles of the array's clock; 0 is when its first row may stream, cycle `phase` of the run.
        """
        from workbench.explaining.views.timelines import arrays

        return data_frames.frame(arrays.tiles_table(self.record))

    @knows_its_options
    def at(self, cycle: int) -> pd.DataFrame:
        """One cycle of the array's clock: which parts go on, of which tile, the rows that have moved in and streamed,
        and how many of the array's elements are at work."""
        from workbench.explaining.views.timelines import arrays

        return data_frames.frame(arrays.cycle_table(self.record, cycle))

    @knows_its_options
    def text(self) -> str:
        """The product, the part of the array that it uses, and its time by formula."""
        from workbench.explaining.views.timelines import arrays

        return arrays.walk_text(self.record, self.run.record, self.run.scheduled.launches)

    @knows_its_options
    def html(self) -> Markup:
        """The same with pictures: the wave front half across the array, and the tiles over time."""
        from workbench.explaining.views.timelines import svg_arrays

        return markup.fragment(svg_arrays.array_svg(self.record, self.run.record, self.run.scheduled.launches))

    @knows_its_options
    def widget(self) -> object:
        """The array cycle by cycle: scrub and play. See docs/looking-closer.md."""
        return widgets("explaining_widgets").array(self)

    def __repr__(self) -> str:
        from workbench.explaining.views.timelines import arrays

        title = arrays.title(self.record, self.run.record, self.run.scheduled.launches)
        return f"ArrayView({title}, {arrays.sum_text(self.record)})"
