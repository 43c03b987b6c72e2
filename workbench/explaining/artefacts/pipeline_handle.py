"""The loop over tiles of one kernel as it ran."""

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

    from workbench.explaining.views.timelines.pipelines import Pipeline


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
        """One row an iteration, in program order: when it began and ended, cycles in which it loads, computes, stores,
        in which anything of it moves from or to DRAM (`moving`), and those in which its core computes meanwhile
        (`hidden`); the slots of buffers that it uses, and the rows whose computing its transfers ran `during`.

        Instructions before or after the innermost loop are a row of their own, with fewer loops.
        """
        from workbench.explaining.views.timelines import pipelines

        return data_frames.frame(pipelines.rows_table(self.record))

    @property
    def spans(self) -> pd.DataFrame:
        """One row a span: its iteration and stage, its row of `j.simulated.events`, its slots, its cycles, the cycles
        that it `waited` after its issue, their cause and blocker; for a transfer the cycles `hidden` behind work, and
        the rows with this work."""
        from workbench.explaining.views.timelines import pipelines

        return data_frames.frame(pipelines.spans_table(self.record))

    @property
    def hidden_share(self) -> float | None:
        """The share of the cycles with transfers from or to DRAM in which the core computes; None without transfers."""
        moving, hidden = self.record.whole
        return hidden / moving if moving else None

    @knows_its_options
    def text(self) -> str:
        """The hidden share, and a line an iteration."""
        from workbench.explaining.views.timelines import pipelines

        return pipelines.pipeline_text(self.record)

    @knows_its_options
    def html(self) -> Markup:
        """The first iterations as a picture: bars over time, above the stretches in which the core computes."""
        from workbench.explaining.views.timelines import svg_pipelines

        return markup.fragment(svg_pipelines.pipeline_svg(self.record))

    @knows_its_options
    def widget(self) -> object:
        """All iterations to scroll through, with the waits of each bar. See docs/looking-closer.md."""
        return widgets("explaining_widgets").pipeline(self)

    def __repr__(self) -> str:
        from workbench.explaining.views.timelines import pipelines

        return f"PipelineView({pipelines.title(self.record)})"
